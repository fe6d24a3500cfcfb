//! The record of this process, and which of its rows stands for which object.
//! It begins when the first device is opened; a child of a fork begins a new one.

use std::ffi::CString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use kelpie_trace::{Caps, Kind, Recorder, Row, WORDS};
use rdma_sys::{ibv_ah, ibv_qp, ibv_srq};

use crate::pointers::Pointers;

/// The folder that records are written to, one a process. Without it nothing is recorded.
const FOLDER: &str = "KELPIE_TRACE_DIR";

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
    let mut path = folder.as_bytes().to_vec();
    path.extend_from_slice(format!("/{pid}.record").as_bytes());
    let words = CString::new(path).ok().and_then(|path| map(&path));
    let Some(words) = words else {
        let error = std::io::Error::last_os_error();
        // Whatever is wrong with its stderr is not the program's affair.
        let _ = writeln!(std::io::stderr(), "kelpie trace: process {pid} is not recorded: {error}");
        return;
    };
    // SAFETY: the mapping has this length and is zero; atomics may be shared.
    Recorder::start(unsafe { std::slice::from_raw_parts(words, WORDS) }, pid);
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
    QPS.clear();
    SRQS.clear();
}

/// Makes the file and maps it. The second thread of a race finds and maps the first one's.
fn map(path: &CString) -> Option<*const AtomicU64> {
    // SAFETY: the path ends with a zero; the descriptor is closed below and the mapping outlives it.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW, 0o600);
        if file < 0 {
            return None;
        }
        let mut mapped = libc::MAP_FAILED;
        if libc::ftruncate(file, (WORDS * 8) as i64) == 0 {
            mapped = libc::mmap(null_mut(), WORDS * 8, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file, 0);
        }
        if mapped == libc::MAP_FAILED {
            // Half a record would be in the reader's way.
            let error = *libc::__errno_location();
            libc::unlink(path.as_ptr());
            *libc::__errno_location() = error;
        }
        libc::close(file);
        (mapped != libc::MAP_FAILED).then_some(mapped.cast_const().cast())
    }
}

/// Takes in a new QP.
pub fn add_qp(qp: *mut ibv_qp, raw_type: u32, number: u32, caps: Caps, srq: *const ibv_srq) {
    let Some(recorder) = recorder() else { return };
    let srq = SRQS.get(srq).map(Row);
    // Another QP may have been at this place.
    match recorder.add(Kind::Qp(raw_type), number, caps, srq) {
        Some(row) => _ = QPS.put(qp, row.0),
        None => QPS.remove(qp),
    }
}

/// A QP is about to be destroyed: another may begin at its place before that returns.
pub fn remove_qp(qp: *const ibv_qp) -> Option<(Recorder<'static>, Row)> {
    let known = of_qp(qp);
    QPS.remove(qp);
    known
}

/// It was not destroyed.
pub fn restore_qp(qp: *const ibv_qp, row: Row) {
    QPS.put(qp, row.0);
}

/// Takes in a new shared receive queue.
pub fn add_srq(srq: *mut ibv_srq, depth: u32) {
    let Some(recorder) = recorder() else { return };
    let caps = Caps { send_depth: 0, recv_depth: depth };
    match recorder.add(Kind::Srq, 0, caps, None) {
        Some(row) => _ = SRQS.put(srq, row.0),
        None => SRQS.remove(srq),
    }
}

/// The record and the row of a QP in it.
pub fn of_qp(qp: *const ibv_qp) -> Option<(Recorder<'static>, Row)> {
    Some((recorder()?, Row(QPS.get(qp)?)))
}

/// The record and the row of a shared receive queue in it.
pub fn of_srq(srq: *const ibv_srq) -> Option<(Recorder<'static>, Row)> {
    Some((recorder()?, Row(SRQS.get(srq)?)))
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
