//! libibverbs.so.1, opened at run time, as a table of the functions that Kelpie calls. Inlined verbs are in rdma-sys.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use rdma_sys::{
    ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_mr,
    ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

use crate::error::VerbsError;

macro_rules! library {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, by their names without `ibv_`. Source: `infiniband/verbs.h`.
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Since libibverbs 28; domain, start, length, address, access. It drops optional access that the kernel
            /// does not know.
            pub reg_mr_iova2: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr>,
            /// Since libibverbs 34; domain, offset, length, address, descriptor, access.
            pub reg_dmabuf_mr: Option<unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr>,
        }

        impl Library {
            fn open() -> Result<Self, VerbsError> {
                // SAFETY: libibverbs has no initialisers that could misbehave in a multi-threaded process.
                let library = unsafe { libloading::Library::new("libibverbs.so.1") }.map_err(VerbsError::Library)?;
                $(
                    // SAFETY: the type is that of the function's default version in `infiniband/verbs.h`.
                    let $name = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol.as_bytes())
                    }
                    .map_err(|source| VerbsError::Symbol { symbol: $symbol, source })?;
                )*
                // SAFETY: as above.
                let reg_mr_iova2 = unsafe { library.get(b"ibv_reg_mr_iova2") }.ok().map(|symbol| *symbol);
                // SAFETY: as above.
                let reg_dmabuf_mr = unsafe { library.get(b"ibv_reg_dmabuf_mr") }.ok().map(|symbol| *symbol);
                // The functions stay valid for the life of the process.
                std::mem::forget(library);
                Ok(Self { $($name,)* reg_mr_iova2, reg_dmabuf_mr })
            }
        }
    };
}

library! {
    get_device_list = "ibv_get_device_list": fn(*mut c_int) -> *mut *mut ibv_device;
    free_device_list = "ibv_free_device_list": fn(*mut *mut ibv_device);
    get_device_name = "ibv_get_device_name": fn(*mut ibv_device) -> *const c_char;
    open_device = "ibv_open_device": fn(*mut ibv_device) -> *mut ibv_context;
    close_device = "ibv_close_device": fn(*mut ibv_context) -> c_int;
    query_device = "ibv_query_device": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    query_port = "ibv_query_port": fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    get_async_event = "ibv_get_async_event": fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ack_async_event = "ibv_ack_async_event": fn(*mut ibv_async_event);
    alloc_pd = "ibv_alloc_pd": fn(*mut ibv_context) -> *mut ibv_pd;
    dealloc_pd = "ibv_dealloc_pd": fn(*mut ibv_pd) -> c_int;
    reg_mr = "ibv_reg_mr": fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    dereg_mr = "ibv_dereg_mr": fn(*mut ibv_mr) -> c_int;
    create_cq = "ibv_create_cq": fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    destroy_cq = "ibv_destroy_cq": fn(*mut ibv_cq) -> c_int;
    create_qp = "ibv_create_qp": fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp = "ibv_modify_qp": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    destroy_qp = "ibv_destroy_qp": fn(*mut ibv_qp) -> c_int;
    create_ah = "ibv_create_ah": fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    destroy_ah = "ibv_destroy_ah": fn(*mut ibv_ah) -> c_int;
    wc_status_str = "ibv_wc_status_str": fn(c_uint) -> *const c_char;
    event_type_str = "ibv_event_type_str": fn(c_uint) -> *const c_char;
}

/// The library, opened at the first call.
pub fn library() -> Result<&'static Library, VerbsError> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = Library::open()?;
    Ok(LIBRARY.get_or_init(|| library))
}
