//! The functions of libibverbs that ours stand before: found by the dynamic linker, or handed over by a program that opened the library itself.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

/// A function of libibverbs, in the version that its headers name.
pub struct Next {
    name: &'static CStr,
    version: &'static CStr,
    ours: *const c_void,
    real: AtomicPtr<c_void>,
}

// SAFETY: `ours` is the address of a function.
unsafe impl Sync for Next {}

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

impl Next {
    /// `ours` stands before `name` of `version`.
    pub const fn new(name: &'static CStr, version: &'static CStr, ours: *const c_void) -> Self {
        Self { name, version, ours, real: AtomicPtr::new(null_mut()) }
    }

    /// The real function; null where this libibverbs is too old to have it.
    pub fn real(&self) -> *mut c_void {
        let known = self.real.load(Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: both names end with a zero.
        let mut found = unsafe { dlvsym_of_libc(libc::RTLD_NEXT, self.name.as_ptr(), self.version.as_ptr()) };
        if found.is_null() {
            // A plugin has brought the library along for itself alone. The handle is kept, so that the library stays.
            // SAFETY: as above; nothing is loaded that was not there.
            found = unsafe {
                let library = libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if library.is_null() {
                    null_mut()
                } else {
                    dlvsym_of_libc(library, self.name.as_ptr(), self.version.as_ptr())
                }
            };
        }
        self.real.store(found, Release);
        found
    }
}

/// As `dlvsym(3)`.
unsafe fn dlvsym_of_libc(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut real = REAL.load(Acquire);
    if real.is_null() {
        // SAFETY: the name ends with a zero. This library has a `dlvsym` of its own, so the next one is libc's.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlvsym".as_ptr()) };
        REAL.store(real, Release);
    }
    if real.is_null() {
        return null_mut();
    }
    // SAFETY: this is the type of `dlvsym(3)`.
    let real: Dlvsym = unsafe { std::mem::transmute(real) };
    // SAFETY: as the caller promises.
    unsafe { real(handle, name, version) }
}

/// Stands before `dlvsym(3)`: a program that opens libibverbs by itself, as NCCL does, asks here for its functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    // SAFETY: as the caller promises.
    let real = unsafe { dlvsym_of_libc(handle, name, version) };
    if real.is_null() || name.is_null() {
        return real;
    }
    // SAFETY: it was found, so it is a name.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(next) = crate::exports::ALL.iter().find(|next| next.name == name) else { return real };
    // The library may have been closed and opened again at another place.
    next.real.store(real, Release);
    next.ours.cast_mut()
}
