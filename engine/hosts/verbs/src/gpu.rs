//! Memory of a GPU, handed to the NIC as a dma-buf. CUDA is opened at run time; a host without it lacks only this.
//!
//! Source: CUDA driver API, `cuMemGetHandleForAddressRange`; `ibv_reg_dmabuf_mr(3)`.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::error::VerbsError;

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`. Source: `cuda.h`.
const DMA_BUF_FD: c_int = 1;

/// Sizes that a dma-buf comes in: a page of the GPU. Units: bytes. Source: the CUDA toolkit's guide to RDMA for GPUs,
/// section on page sizes.
const GPU_PAGE: usize = 64 << 10;

macro_rules! driver {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        /// The functions of libcuda.so.1 that are called; all return 0 or an error code.
        struct Driver {
            $($name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Driver {
            fn open() -> Result<Self, String> {
                // SAFETY: the driver's initialisers are those that every CUDA program runs.
                let library = unsafe { libloading::Library::new("libcuda.so.1") }.map_err(|error| error.to_string())?;
                $(
                    // SAFETY: the type is that of the function in `cuda.h`.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol.as_bytes())
                    }
                    .map_err(|error| error.to_string())?;
                )*
                // The functions stay valid for the life of the process.
                std::mem::forget(library);
                Ok(Self { $($name,)* })
            }
        }
    };
}

driver! {
    init = "cuInit": fn(c_uint);
    device_get = "cuDeviceGet": fn(*mut c_int, c_int);
    context_retain = "cuDevicePrimaryCtxRetain": fn(*mut *mut c_void, c_int);
    context_release = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    context_set = "cuCtxSetCurrent": fn(*mut c_void);
    allocate = "cuMemAlloc_v2": fn(*mut c_ulonglong, usize);
    free = "cuMemFree_v2": fn(c_ulonglong);
    handle = "cuMemGetHandleForAddressRange": fn(*mut c_void, c_ulonglong, usize, c_int, c_ulonglong);
}

/// The driver, opened at the first call.
fn driver() -> Result<&'static Driver, String> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)
}

/// A GPU's primary context, given back at the end.
struct Primary {
    driver: &'static Driver,
    device: c_int,
    context: *mut c_void,
}

/// Memory of a GPU and its dma-buf. Fields are dropped in this order, after the memory itself is freed.
pub struct GpuMemory {
    address: u64,
    dma_buf: OwnedFd,
    primary: Primary,
}

// SAFETY: a primary context may be made current on any thread, and is, before each call that needs it.
unsafe impl Send for GpuMemory {}
// SAFETY: nothing is changed through a shared reference.
unsafe impl Sync for GpuMemory {}

impl GpuMemory {
    /// Allocates `length` bytes on GPU number `index`.
    pub fn new(index: u8, length: usize) -> Result<Self, VerbsError> {
        Self::allocate(index, length).map_err(|reason| VerbsError::Unsupported(format!("gpu:{index}: {reason}")))
    }

    fn allocate(index: u8, length: usize) -> Result<Self, String> {
        let driver = driver().map_err(|reason| format!("this host has no CUDA driver ({reason})"))?;
        let (mut device, mut context, mut address, mut descriptor): (c_int, _, _, c_int) = (0, null_mut(), 0, -1);
        // SAFETY: each call writes only to the place of its result, which lives through it.
        unsafe {
            done("cuInit", (driver.init)(0))?;
            done("cuDeviceGet", (driver.device_get)(&raw mut device, index.into()))?;
            done("cuDevicePrimaryCtxRetain", (driver.context_retain)(&raw mut context, device))?;
        }
        let primary = Primary { driver, device, context };
        primary.enter()?;
        let length = length.checked_next_multiple_of(GPU_PAGE).ok_or("too much memory")?;
        // SAFETY: the context is current; the results are written to places that live through the calls.
        unsafe {
            done("cuMemAlloc", (driver.allocate)(&raw mut address, length))?;
            let target = (&raw mut descriptor).cast();
            if let Err(error) =
                done("cuMemGetHandleForAddressRange", (driver.handle)(target, address, length, DMA_BUF_FD, 0))
            {
                (driver.free)(address);
                return Err(error);
            }
        }
        // SAFETY: the driver has just opened it for us.
        Ok(Self { address, dma_buf: unsafe { OwnedFd::from_raw_fd(descriptor) }, primary })
    }

    /// Its address, as work requests name it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its dma-buf.
    pub fn descriptor(&self) -> c_int {
        self.dma_buf.as_raw_fd()
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        if self.primary.enter().is_ok() {
            // SAFETY: allocated once in this context, freed once; every MR in it is gone.
            unsafe { (self.primary.driver.free)(self.address) };
        }
    }
}

impl Primary {
    fn enter(&self) -> Result<(), String> {
        // SAFETY: the context is retained until this value is dropped.
        done("cuCtxSetCurrent", unsafe { (self.driver.context_set)(self.context) })
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once.
        unsafe { (self.driver.context_release)(self.device) };
    }
}

fn done(call: &str, status: c_int) -> Result<(), String> {
    // Source: `cuda.h`, `CUresult`.
    if status == 0 { Ok(()) } else { Err(format!("{call} failed with CUDA error {status}")) }
}
