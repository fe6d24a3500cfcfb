//! The record of this process, and which of its rows stands for which object.
//! It begins when the first device is opened; a child of a fork begins a new one.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use kelpie_trace::{QpRow, QpRowKind, QueueDepths, ROWS, Recorder, WORDS};
use rdma_sys::{ibv_ah, ibv_qp, ibv_srq};

use crate::lock::EXCHANGING;
use crate::pointers::Pointers;

/// The folder that records are written to, one a process. Without it nothing is recorded.
const FOLDER: &str = "KELPIE_TRACE_DIR";

/// What stands in the name of an empty file between process and `errno` if the process could not be recorded.
const UNRECORDED: &str = ".unrecorded-";

/// Rows for which room on the disk is made at a time. Source: our choice, because they are 300 kB.
const CHUNK: usize = 64;

/// Which of them have it.
static BACKED: [AtomicBool; ROWS.div_ceil(CHUNK)] = [const { AtomicBool::new(false) }; ROWS.div_ceil(CHUNK)];

/// Where the record of this process is; never freed.
static PATH: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

static MAPPED: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

static AT_FORK: Once = Once::new();

/// Rows of QPs.
static QPS: Pointers<{ 1 << 16 }> = Pointers::new();
/// Rows of shared receive queues.
static SRQS: Pointers<{ 1 << 12 }> = Pointers::new();
/// Address handles that lead back to their own port.
static LOCAL_HANDLES: Pointers<{ 1 << 12 }> = Pointers::new();

/// The record, once there is one.
pub fn recorder() -> Option<Recorder<'static>> {
    let words = MAPPED.load(Acquire);
    // SAFETY: a pointer that is not null is a mapping of this length, which is never taken back.
    (!words.is_null()).then(|| Recorder::resume(unsafe { std::slice::from_raw_parts(words, WORDS) }))
}

/// Begins the record, if it has not begun and is wanted.
pub fn begin() {
    if !MAPPED.load(Acquire).is_null() {
        return;
    }
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let pid = std::process::id();
    let within = |name: &str| CString::new([folder.as_bytes(), b"/", name.as_bytes()].concat()).ok();
    let Some(path) = within(&format!("{pid}.record")) else { return };
    let words = match map(&path) {
        Ok(words) => words,
        Err(errno) => {
            // An empty file has room where no other has, and whatever is wrong with it is not the program's affair.
            if let Some(path) = within(&format!("{pid}{UNRECORDED}{errno}")) {
                let _ = Descriptor::open(&path);
            }
            return;
        }
    };
    // SAFETY: the mapping has this length and is zero; atomics may be shared.
    Recorder::start(unsafe { std::slice::from_raw_parts(words, WORDS) }, pid);
    PATH.store(path.into_raw(), Release);
    if MAPPED.compare_exchange(null_mut(), words.cast_mut(), AcqRel, Acquire).is_err() {
        // SAFETY: another thread was faster, and nobody has seen this mapping.
        unsafe { libc::munmap(words.cast_mut().cast(), WORDS * 8) };
    }
    // SAFETY: the function only stores to atomics, which a child may do.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(forget));
    });
}

/// What a child of a fork inherits is its parent's.
unsafe extern "C" fn forget() {
    MAPPED.store(null_mut(), Release);
    for backed in &BACKED {
        backed.store(false, Release);
    }
    QPS.clear();
    SRQS.clear();
    EXCHANGING.release();
}

/// Does something that the program's `errno` shall not tell of.
pub fn errno_kept<T>(work: impl FnOnce() -> T) -> T {
    let errno = last_errno();
    let done = work();
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = errno };
    done
}

/// An open file.
pub struct Descriptor(c_int);

impl Descriptor {
    /// Opens or makes it.
    pub fn open(path: &CStr) -> Result<Self, c_int> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: the path ends with a zero.
        let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
        if file < 0 { Err(last_errno()) } else { Ok(Self(file)) }
    }

    /// Writes at the end, if the file is no longer than `longest`.
    pub fn append(&self, bytes: &[u8], longest: u64) {
        // SAFETY: the file is open.
        let end = unsafe { libc::lseek(self.0, 0, libc::SEEK_END) };
        if (0..=longest as i64).contains(&end) {
            // SAFETY: the bytes live through the call. Whatever does not fit on the disk is not the program's affair.
            unsafe { libc::pwrite(self.0, bytes.as_ptr().cast(), bytes.len(), end) };
        }
    }

    /// Sees to it that this part can be written. A page of a mapped hole that has no room when it is touched ends the
    /// process by SIGBUS.
    fn reserve(&self, bytes: &Range<usize>) -> Result<(), c_int> {
        loop {
            // SAFETY: the file is open.
            match unsafe { libc::posix_fallocate(self.0, bytes.start as i64, bytes.len() as i64) } {
                0 => return Ok(()),
                libc::EINTR => {}
                errno => return Err(errno),
            }
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: it is ours, and closed once.
        unsafe { libc::close(self.0) };
    }
}

fn last_errno() -> c_int {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Makes the file and maps it. The second thread of a race finds and maps the first one's.
fn map(path: &CStr) -> Result<*const AtomicU64, c_int> {
    let file = Descriptor::open(path)?;
    // SAFETY: the file is open; the mapping outlives it.
    let mapped = unsafe { map_file(&file) };
    if mapped.is_err() {
        // Half a record would be in the reader's way.
        // SAFETY: the path ends with a zero.
        unsafe { libc::unlink(path.as_ptr()) };
    }
    mapped
}

/// # Safety
/// The file is ours.
unsafe fn map_file(file: &Descriptor) -> Result<*const AtomicU64, c_int> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours to be written.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    // Going past it would send a signal that ends the process.
    if is_known && limit.rlim_cur < WORDS as u64 * 8 {
        return Err(libc::EFBIG);
    }
    // SAFETY: the file is open.
    if unsafe { libc::ftruncate(file.0, WORDS as i64 * 8) } != 0 {
        return Err(last_errno());
    }
    for part in kelpie_trace::always_used() {
        file.reserve(&part)?;
    }
    // SAFETY: the file is open and has this length.
    let mapped =
        unsafe { libc::mmap(null_mut(), WORDS * 8, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.0, 0) };
    if mapped == libc::MAP_FAILED { Err(last_errno()) } else { Ok(mapped.cast_const().cast()) }
}

/// Sees to it that the row of a new object can be written. The file is opened anew each time, because a program may
/// close descriptors that it does not know, and open others in their place.
fn is_backed(row: QpRow) -> bool {
    let (chunk, path) = (row.0 / CHUNK, PATH.load(Acquire));
    if BACKED[chunk].load(Acquire) {
        return true;
    }
    if path.is_null() {
        return false;
    }
    let (first, last) = (QpRow(chunk * CHUNK).bytes(), QpRow((chunk + 1) * CHUNK - 1).bytes());
    // SAFETY: it is a path that was stored above and is never freed.
    let file = Descriptor::open(unsafe { CStr::from_ptr(path) });
    let is_backed = file.and_then(|file| file.reserve(&(first.start..last.end))).is_ok();
    BACKED[chunk].store(is_backed, Release);
    is_backed
}

/// Takes in a new QP.
pub fn add_qp(qp: *mut ibv_qp, raw_type: u32, number: u32, caps: QueueDepths, srq: *const ibv_srq) {
    let Some(recorder) = recorder() else { return };
    let srq = SRQS.get(srq).map(QpRow);
    // Another QP may have been at this place.
    match recorder.add_backed(QpRowKind::Qp(raw_type), number, caps, srq, is_backed) {
        Some(row) => _ = QPS.put(qp, row.0),
        None => QPS.remove(qp),
    }
}

/// A QP is about to be destroyed: another may begin at its place before that returns.
pub fn remove_qp(qp: *const ibv_qp) -> Option<(Recorder<'static>, QpRow)> {
    let known = of_qp(qp);
    QPS.remove(qp);
    known
}

/// It was not destroyed.
pub fn restore_qp(qp: *const ibv_qp, row: QpRow) {
    QPS.put(qp, row.0);
}

/// Takes in a new shared receive queue.
pub fn add_srq(srq: *mut ibv_srq, depth: u32) {
    let Some(recorder) = recorder() else { return };
    let caps = QueueDepths { send_depth: 0, recv_depth: depth };
    match recorder.add_backed(QpRowKind::Srq, 0, caps, None, is_backed) {
        Some(row) => _ = SRQS.put(srq, row.0),
        None => SRQS.remove(srq),
    }
}

/// The record and the row of a QP in it.
pub fn of_qp(qp: *const ibv_qp) -> Option<(Recorder<'static>, QpRow)> {
    Some((recorder()?, QpRow(QPS.get(qp)?)))
}

/// The record and the row of a shared receive queue in it.
pub fn of_srq(srq: *const ibv_srq) -> Option<(Recorder<'static>, QpRow)> {
    Some((recorder()?, QpRow(SRQS.get(srq)?)))
}

/// Remembers whether an address handle leads back to its own port.
pub fn set_local(handle: *const ibv_ah, is_local: bool) {
    if is_local || LOCAL_HANDLES.get(handle).is_some() {
        LOCAL_HANDLES.put(handle, usize::from(is_local));
    }
}

/// Whether it does.
pub fn is_local(handle: *const ibv_ah) -> bool {
    LOCAL_HANDLES.get(handle) == Some(1)
}

/// Time of day does not matter, only what passes. Units: nanoseconds.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the time is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
