//! libibverbs.so.1, opened at run time, as a table of the functions that Kelpie calls. Inlined verbs are in rdma-sys.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use rdma_sys::{
    ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device, ibv_device_attr, ibv_mr,
    ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
};

use crate::error::VerbsError;
use crate::verb::Verb;

/// A function of the library together with its name.
#[derive(Clone, Copy)]
pub struct Function<F> {
    /// What errors call it.
    pub verb: Verb,
    /// The function.
    pub run: F,
}

macro_rules! verb {
    (make $symbol:literal) => {
        Verb::new($symbol, true)
    };
    (call $symbol:literal) => {
        Verb::new($symbol, false)
    };
}

/// `make` stands before what takes something of which there is only so much, `call` before everything else.
macro_rules! library {
    (
        required { $($kind:ident $name:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)* }
        optional { $($(#[$doc:meta])* $okind:ident $oname:ident = $osymbol:literal: fn($($oargument:ty),*) $(-> $oresult:ty)?;)* }
        inlined { $($ikind:ident $iname:ident = $isymbol:literal;)* }
    ) => {
        /// The functions, by their names without `ibv_`. Source: `infiniband/verbs.h`.
        pub struct Library {
            $(pub $name: Function<unsafe extern "C" fn($($argument),*) $(-> $result)?>,)*
            $($(#[$doc])* pub $oname: Option<Function<unsafe extern "C" fn($($oargument),*) $(-> $oresult)?>>,)*
        }

        impl Library {
            fn open() -> Result<Self, VerbsError> {
                // SAFETY: libibverbs has no initialisers that could misbehave in a multi-threaded process.
                let library = unsafe { libloading::Library::new("libibverbs.so.1") }.map_err(VerbsError::Library)?;
                $(
                    // SAFETY: the type is that of the function's default version in `infiniband/verbs.h`.
                    let run = *unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol.as_bytes())
                    }
                    .map_err(|source| VerbsError::Symbol { symbol: $symbol, source })?;
                    let $name = Function { verb: verb!($kind $symbol), run };
                )*
                $(
                    // SAFETY: as above.
                    let run = unsafe { library.get($osymbol.as_bytes()) }.ok().map(|symbol| *symbol);
                    let $oname = run.map(|run| Function { verb: verb!($okind $osymbol), run });
                )*
                // The functions stay valid for the life of the process.
                std::mem::forget(library);
                Ok(Self { $($name,)* $($oname,)* })
            }
        }

        impl Verb {
            $(
                #[doc = concat!("`", $isymbol, "`, which is no symbol of the library.")]
                pub const $iname: Self = verb!($ikind $isymbol);
            )*

            #[cfg(test)]
            pub const ALL: &[Self] = &[$(verb!($kind $symbol),)* $(verb!($okind $osymbol),)* $(Self::$iname,)*];
        }
    };
}

library! {
    required {
        call get_device_list = "ibv_get_device_list": fn(*mut c_int) -> *mut *mut ibv_device;
        call free_device_list = "ibv_free_device_list": fn(*mut *mut ibv_device);
        call get_device_name = "ibv_get_device_name": fn(*mut ibv_device) -> *const c_char;
        call open_device = "ibv_open_device": fn(*mut ibv_device) -> *mut ibv_context;
        call close_device = "ibv_close_device": fn(*mut ibv_context) -> c_int;
        call query_device = "ibv_query_device": fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        call query_port = "ibv_query_port": fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        call get_async_event = "ibv_get_async_event": fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
        call ack_async_event = "ibv_ack_async_event": fn(*mut ibv_async_event);
        call alloc_pd = "ibv_alloc_pd": fn(*mut ibv_context) -> *mut ibv_pd;
        call dealloc_pd = "ibv_dealloc_pd": fn(*mut ibv_pd) -> c_int;
        make reg_mr = "ibv_reg_mr": fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        call dereg_mr = "ibv_dereg_mr": fn(*mut ibv_mr) -> c_int;
        make create_cq = "ibv_create_cq": fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        call destroy_cq = "ibv_destroy_cq": fn(*mut ibv_cq) -> c_int;
        make create_qp = "ibv_create_qp": fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        call modify_qp = "ibv_modify_qp": fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        call destroy_qp = "ibv_destroy_qp": fn(*mut ibv_qp) -> c_int;
        make create_ah = "ibv_create_ah": fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        call destroy_ah = "ibv_destroy_ah": fn(*mut ibv_ah) -> c_int;
        call wc_status_str = "ibv_wc_status_str": fn(c_uint) -> *const c_char;
        call event_type_str = "ibv_event_type_str": fn(c_uint) -> *const c_char;
    }
    optional {
        /// Since libibverbs 28; domain, start, length, address, access. It drops optional access that the kernel does
        /// not know.
        make reg_mr_iova2 = "ibv_reg_mr_iova2": fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
        /// Since libibverbs 34; domain, offset, length, address, descriptor, access.
        make reg_dmabuf_mr = "ibv_reg_dmabuf_mr": fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
    }
    inlined {
        call POLL_CQ = "ibv_poll_cq";
        call POST_SEND = "ibv_post_send";
        call POST_RECV = "ibv_post_recv";
        call FCNTL = "fcntl";
    }
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
