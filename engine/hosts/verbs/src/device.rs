//! An opened device: its limits, a port's state, asynchronous events. Addresses are in `address`.

use std::ffi::{CStr, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_async_event, ibv_context, ibv_device, ibv_device_attr, ibv_mtu, ibv_port_attr, ibv_port_state};

use crate::error::VerbsError;
use crate::library::{Library, library};
use crate::verb::Verb;

/// `ibv_context`.
pub struct Context {
    raw: NonNull<ibv_context>,
    library: &'static Library,
    name: String,
    attributes: ibv_device_attr,
}

// SAFETY: libibverbs is thread-safe for all calls on a context (`ibv_open_device(3)`, rdma-core `Documentation`).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What is asked about a port.
#[derive(Debug, Clone, Copy)]
pub struct PortState {
    /// Largest path MTU. Units: bytes.
    pub active_mtu: u64,
    /// Longest message. Units: bytes.
    pub longest_message: u64,
    /// LID; 0 on Ethernet.
    pub lid: u16,
    /// Whether the link layer is Ethernet.
    pub is_ethernet: bool,
    /// Whether packets to it need a global route even within its subnet.
    pub needs_grh: bool,
}

impl Context {
    /// Opens the device of this name, or the only one there is.
    pub fn open(wanted: Option<&str>) -> Result<Arc<Self>, VerbsError> {
        let library = library()?;
        let list = DeviceList::new(library)?;
        let names: Vec<String> = list.devices().map(|device| list.name(device)).collect();
        let index = match wanted {
            Some(wanted) => names.iter().position(|name| name == wanted),
            None if names.len() == 1 => Some(0),
            None => None,
        };
        let Some(index) = index else {
            let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let wanted = wanted.map_or_else(|| "was named and there is not exactly one".to_owned(), str::to_owned);
            return Err(VerbsError::NoDevice { wanted, found });
        };
        let device = list.devices().nth(index).expect("names and devices have the same length");
        let name = names.into_iter().nth(index).expect("found above");
        // SAFETY: `device` is in the list, which lives until the end of this function.
        let raw = NonNull::new(unsafe { (library.open_device.run)(device) })
            .ok_or_else(|| VerbsError::last_os_error(library.open_device.verb, &name))?;
        let mut context = Self { raw, library, name, attributes: zeroed_attributes() };
        // SAFETY: the context is open and the attributes are a valid place to write to.
        let status = unsafe { (library.query_device.run)(raw.as_ptr(), &raw mut context.attributes) };
        if status != 0 {
            return Err(VerbsError::from_status(library.query_device.verb, &context.name, status));
        }
        context.make_events_non_blocking()?;
        Ok(Arc::new(context))
    }

    /// The raw context, for other objects of this crate.
    pub fn raw(&self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    /// The library it belongs to.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Device name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's limits.
    pub fn limits(&self) -> &ibv_device_attr {
        &self.attributes
    }

    /// The state of a port, which has to be active.
    pub fn port(&self, port: u8) -> Result<PortState, VerbsError> {
        let object = format!("{} port {port}", self.name);
        let mut attributes = MaybeUninit::<ibv_port_attr>::zeroed();
        // SAFETY: the context is open; the older form of the call writes a prefix of the zeroed structure.
        let status = unsafe { (self.library.query_port.run)(self.raw(), port, attributes.as_mut_ptr()) };
        if status != 0 {
            return Err(VerbsError::from_status(self.library.query_port.verb, object, status));
        }
        // SAFETY: all fields are integers, for which zero is valid.
        let attributes = unsafe { attributes.assume_init() };
        if attributes.state != ibv_port_state::IBV_PORT_ACTIVE {
            return Err(VerbsError::Protocol(format!("{object} is not active: is its link up?")));
        }
        Ok(PortState {
            active_mtu: mtu_bytes(attributes.active_mtu),
            // A driver that does not say is believed to have no limit.
            longest_message: if attributes.max_msg_sz == 0 { u64::MAX } else { attributes.max_msg_sz.into() },
            lid: attributes.lid,
            // Source: `infiniband/verbs.h`, IBV_LINK_LAYER_ETHERNET.
            is_ethernet: attributes.link_layer == 2,
            // Source: `infiniband/verbs.h`, IBV_QPF_GRH_REQUIRED.
            needs_grh: attributes.flags & 1 != 0,
        })
    }

    /// The next asynchronous event, if there is one, in the library's words.
    pub fn event(&self) -> Option<String> {
        let mut event = MaybeUninit::<ibv_async_event>::uninit();
        // SAFETY: the context is open, its event descriptor does not block, and the event is written on success.
        if unsafe { (self.library.get_async_event.run)(self.raw(), event.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: written above. Its type is read as an integer: a newer kernel may send one that Rust's enum lacks.
        let kind = unsafe { (&raw const (*event.as_ptr()).event_type).cast::<u32>().read() };
        // SAFETY: each event is acknowledged once, before its object is destroyed.
        unsafe { (self.library.ack_async_event.run)(event.as_mut_ptr()) };
        // SAFETY: the function accepts any number and returns a static string.
        Some(text(unsafe { (self.library.event_type_str.run)(kind) }))
    }

    fn make_events_non_blocking(&self) -> Result<(), VerbsError> {
        // SAFETY: the context is open, so its descriptor is.
        let done = unsafe {
            let descriptor = (*self.raw()).async_fd;
            let flags = libc::fcntl(descriptor, libc::F_GETFL);
            flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
        };
        if done { Ok(()) } else { Err(VerbsError::last_os_error(Verb::FCNTL, format!("the events of {}", self.name))) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: every object of the context holds a reference to it and is gone.
        if unsafe { (self.library.close_device.run)(self.raw()) } != 0 {
            tracing::warn!(device = self.name, error = %io::Error::last_os_error(), "ibv_close_device failed");
        }
    }
}

/// Path MTU in bytes of the code that verbs use. Source: `infiniband/verbs.h`, `enum ibv_mtu`.
fn mtu_bytes(code: ibv_mtu::Type) -> u64 {
    if (1..=5).contains(&code) { 128 << code } else { 0 }
}

/// A static string of libibverbs.
pub fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: callers pass strings of libibverbs, which end with a zero byte.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

fn zeroed_attributes() -> ibv_device_attr {
    // SAFETY: all fields are integers and arrays of them, for which zero is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// `ibv_get_device_list`, freed at the end.
struct DeviceList {
    raw: NonNull<*mut ibv_device>,
    count: usize,
    library: &'static Library,
}

impl DeviceList {
    fn new(library: &'static Library) -> Result<Self, VerbsError> {
        let mut count = 0;
        // SAFETY: the count is a valid place to write to.
        let raw = NonNull::new(unsafe { (library.get_device_list.run)(&raw mut count) });
        let raw = raw.ok_or_else(|| match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOSYS) => VerbsError::NoDriver(error),
            _ => VerbsError::last_os_error(library.get_device_list.verb, "this host"),
        })?;
        Ok(Self { raw, count: usize::try_from(count).unwrap_or(0), library })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ibv_device> + '_ {
        // SAFETY: the list holds `count` devices until it is freed.
        (0..self.count).map(|index| unsafe { *self.raw.as_ptr().add(index) })
    }

    fn name(&self, device: *mut ibv_device) -> String {
        // SAFETY: the device is in the list, its name lives as long.
        text(unsafe { (self.library.get_device_name.run)(device) })
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: freed once; opened devices stay valid without the list.
        unsafe { (self.library.free_device_list.run)(self.raw.as_ptr()) };
    }
}
