//! Where registered memory lives: a NUMA node, or a GPU as far as the program has loaded CUDA.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::ptr::null;

use kelpie_trace::MrDevice;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE` and `_DEVICE_ORDINAL`, and `CU_MEMORYTYPE_DEVICE`. Source: `cuda.h`.
const MEMORY_TYPE: c_int = 2;
const DEVICE_ORDINAL: c_int = 9;
const ON_DEVICE: c_int = 2;

type PointerAttribute = unsafe extern "C" fn(*mut c_void, c_int, c_ulonglong) -> c_int;

/// The device of what begins at `address`. Memory of a GPU was never tried: no host with one was at hand.
pub fn device(address: *mut c_void) -> MrDevice {
    gpu(address).or_else(|| node(address)).unwrap_or(MrDevice::Unknown)
}

fn gpu(address: *mut c_void) -> Option<MrDevice> {
    // SAFETY: the name ends with a zero. What is found is the driver that the program itself has loaded, maybe for
    // itself alone.
    let driver = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if driver.is_null() {
        return None;
    }
    // SAFETY: the handle is that of a loaded library, the name ends with a zero.
    let found = unsafe { libc::dlsym(driver, c"cuPointerGetAttribute".as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: this is its type in `cuda.h`.
    let attribute: PointerAttribute = unsafe { std::mem::transmute(found) };
    let ask = |what| {
        let mut value: c_int = 0;
        // SAFETY: both attributes are an int; any address may be asked about.
        let status = unsafe { attribute((&raw mut value).cast(), what, address as c_ulonglong) };
        (status == 0).then_some(value)
    };
    (ask(MEMORY_TYPE)? == ON_DEVICE).then_some(())?;
    u8::try_from(ask(DEVICE_ORDINAL)?).ok().map(MrDevice::Gpu)
}

/// The node of the first page, which registering has put somewhere.
fn node(address: *mut c_void) -> Option<MrDevice> {
    let (pages, mut status) = ([address], -1 as c_int);
    // SAFETY: one page is asked about and none is moved; see `move_pages(2)`.
    let result =
        unsafe { libc::syscall(libc::SYS_move_pages, 0, 1usize, pages.as_ptr(), null::<c_int>(), &raw mut status, 0) };
    if result != 0 { None } else { u8::try_from(status).ok().map(MrDevice::Dram) }
}
