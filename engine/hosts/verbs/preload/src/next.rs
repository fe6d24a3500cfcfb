//! The functions of libibverbs that ours replace: from the dynamic linker, or from a program that opened it itself.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

/// A function of libibverbs, in the version that its headers name.
pub struct NextFunction {
    name: &'static CStr,
    version: &'static CStr,
    ours: *const c_void,
    real: AtomicPtr<c_void>,
}

// SAFETY: `ours` is the address of a function.
unsafe impl Sync for NextFunction {}

type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

impl NextFunction {
    /// `ours` stands before `name` of `version`.
    pub const fn new(name: &'static CStr, version: &'static CStr, ours: *const c_void) -> Self {
        Self { name, version, ours, real: AtomicPtr::new(null_mut()) }
    }

    /// The real function; null if this libibverbs is too old to have it.
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

    /// Whether this is the function of that name.
    pub fn is_named(&self, name: &CStr) -> bool {
        self.name == name
    }

    /// Ours, for a program that has found the real one by itself.
    pub fn instead_of(&self, real: *mut c_void) -> *mut c_void {
        // The library may have been closed and opened again at another place.
        self.real.store(real, Release);
        self.ours.cast_mut()
    }
}

/// libc's own `dlvsym`, or that of another preloaded library; null if there is none.
pub extern "C" fn real_dlvsym() -> *mut c_void {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let mut real = REAL.load(Acquire);
    if real.is_null() {
        // SAFETY: the name ends with a zero. This library has a `dlvsym` of its own, so the next one is libc's.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"dlvsym".as_ptr()) };
        REAL.store(real, Release);
    }
    real
}

/// As `dlvsym(3)`, called from this library.
///
/// # Safety
/// Both names end with a zero, and the handle is one that `dlvsym(3)` takes.
pub unsafe fn dlvsym_of_libc(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    let real = real_dlvsym();
    if real.is_null() {
        return null_mut();
    }
    // SAFETY: this is the type of `dlvsym(3)`.
    let real: Dlvsym = unsafe { std::mem::transmute(real) };
    // SAFETY: as the caller promises.
    unsafe { real(handle, name, version) }
}
