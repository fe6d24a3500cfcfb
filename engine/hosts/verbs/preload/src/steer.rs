//! Source ports for QPs: asked of the host's agent over a UNIX socket when a QP becomes ready to receive.
//!
//! The program waits for an answer once, and not for long; whatever fails leaves its QPs as they would be, and nothing
//! is asked for a while. A line a QP says what came of it, for `kelpie paths steer` to show.

use std::ffi::{CString, c_int};
use std::fmt::Write as _;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Acquire, Ordering::Release};

use kelpie_spaces::flow_label::{FIRST_PORT, label_of_port};
use rdma_sys::{ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state, ibv_qp_type};

use crate::addresses;
use crate::state::{Descriptor, errno_kept, now};

/// The agent's socket; without it nothing is asked.
const SOCKET: &str = "KELPIE_STEER_SOCKET";

/// The folder for what came of QPs, a file a process.
const FOLDER: &str = "KELPIE_STEER_DIR";

/// Longest wait for the agent. Units: nanoseconds.
const PATIENCE: u64 = 50_000_000;

/// Waits in vain after which nothing is asked for a while, each time twice as long: an agent that is only slow is asked
/// again, and one that hangs costs hardly any time. Source: our choice.
const VAIN: u64 = 4;

/// Units: nanoseconds.
const PAUSE: u64 = 1_000_000_000;
const LONGEST_PAUSE: u64 = 60_000_000_000;

/// Longest file of what came of QPs. Units: bytes. Source: our choice, some 100,000 QPs.
const LONGEST: u64 = 8 << 20;

/// Longest answer. Units: bytes.
const ANSWER: usize = 256;

/// A connection is one descriptor, and which file it is: the program may close it and open another in its place.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static FILE: AtomicU64 = AtomicU64::new(0);

/// QPs that wait until they are ready to send, to be given a LAG port: the number of one, and above it the port. Two
/// QPs that share a place leave one of them as the driver has it. Source of the size: our choice.
static TO_LEAVE: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// When the next question may be asked.
static NOT_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Waits in vain since the last answer.
static IN_VAIN: AtomicU64 = AtomicU64::new(0);

/// Held by the thread that asks.
static ASKING: AtomicBool = AtomicBool::new(false);

static AT_FORK: Once = Once::new();

struct SteeringFiles {
    socket: CString,
    folder: Option<CString>,
}

fn places() -> Option<&'static SteeringFiles> {
    static PLACES: OnceLock<Option<SteeringFiles>> = OnceLock::new();
    let read = |name| std::env::var_os(name).and_then(|value| CString::new(value.as_bytes()).ok());
    PLACES.get_or_init(|| Some(SteeringFiles { socket: read(SOCKET)?, folder: read(FOLDER) })).as_ref()
}

/// A child of a fork is another process: its questions are its own, and no thread of its parent's is in it.
unsafe extern "C" fn forget() {
    let descriptor = DESCRIPTOR.swap(-1, Acquire);
    if is_ours(descriptor) {
        // SAFETY: it is a copy of our connection, which the parent keeps.
        unsafe { libc::close(descriptor) };
    }
    NOT_BEFORE.store(0, Release);
    IN_VAIN.store(0, Release);
    ASKING.store(false, Release);
}

/// Connects to the agent, so that it knows the program before the first question. This waits for nothing.
pub fn begin() {
    let Some(places) = places() else { return };
    errno_kept(|| {
        AT_FORK.call_once(|| {
            // SAFETY: the function only stores to atomics and closes what is ours, which a child may do.
            unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        });
        if ASKING.compare_exchange(false, true, Acquire, Acquire).is_ok() {
            if !is_ours(DESCRIPTOR.load(Acquire)) && now() >= NOT_BEFORE.load(Acquire) {
                // So that the way to an answer is warm.
                let _ = connect(places).and_then(|descriptor| send(descriptor, "hello\n"));
            }
            ASKING.store(false, Release);
        }
    });
}

/// The attributes that a QP is to have instead of `wanted`, if it becomes ready to receive and the agent says so.
///
/// # Safety
/// The QP exists, and `wanted` has what `mask` names.
pub unsafe fn steered(qp: *mut ibv_qp, wanted: *const ibv_qp_attr, mask: c_int) -> Option<ibv_qp_attr> {
    let places = places()?;
    let has = |bit: ibv_qp_attr_mask| mask as u32 & bit.0 != 0;
    if !has(ibv_qp_attr_mask::IBV_QP_STATE) || !has(ibv_qp_attr_mask::IBV_QP_AV) {
        return None;
    }
    // SAFETY: as the caller promises.
    let (context, number, qp_type, attributes) = unsafe { ((*qp).context, (*qp).qp_num, (*qp).qp_type, &*wanted) };
    let is_connected = matches!(qp_type, ibv_qp_type::IBV_QPT_RC | ibv_qp_type::IBV_QPT_UC);
    let address = &attributes.ah_attr;
    if !is_connected || attributes.qp_state != ibv_qp_state::IBV_QPS_RTR || address.is_global == 0 {
        return None;
    }
    errno_kept(|| {
        let own = addresses::gid(context, address.port_num, address.grh.sgid_index)?;
        // SAFETY: any bytes are a GID.
        let peer = unsafe { address.grh.dgid.raw };
        let question = format!("ask {number} {} {}\n", hexadecimal(&own), hexadecimal(&peer));
        let answer = exchange(places, &question, Some(number));
        let port = answer.as_ref().ok().and_then(|words| granted(words));
        let outcome = answer.as_ref().map_or_else(|why| format!("none {why}"), String::clone);
        note(places, &format!("{number} {} {outcome}\n", attributes.dest_qp_num));
        // SAFETY: all of it is integers, and the program's own stays as it is.
        let mut steered = unsafe { wanted.read() };
        steered.ah_attr.grh.flow_label = label_of_port(port?);
        if let Some(leaves) = answer.as_ref().ok().and_then(|words| lag_port(words)) {
            to_leave(number).store(u64::from(number) | u64::from(leaves) << 32, Release);
        }
        Some(steered)
    })
}

fn to_leave(number: u32) -> &'static AtomicU64 {
    &TO_LEAVE[number as usize % TO_LEAVE.len()]
}

/// A QP is in this state now: one that was steered and is ready to send leaves by its side's port of the LAG, if its
/// device has one that deals QPs out.
///
/// # Safety
/// The QP exists.
pub unsafe fn changed(qp: *mut ibv_qp, state: ibv_qp_state::Type) {
    // SAFETY: as the caller promises.
    let number = unsafe { (*qp).qp_num };
    let place = to_leave(number);
    let known = place.load(Acquire);
    if state != ibv_qp_state::IBV_QPS_RTS || known as u32 != number || known == 0 {
        return;
    }
    place.store(0, Release);
    // SAFETY: as above.
    errno_kept(|| _ = unsafe { kelpie_mlx5::leave_by(qp, (known >> 32) as u8) });
}

/// A QP is gone, or has no connection any more.
pub fn gone(number: u32) {
    let Some(places) = places() else { return };
    // Who never asked has nothing to give back.
    if DESCRIPTOR.load(Acquire) >= 0 {
        errno_kept(|| _ = exchange(places, &format!("gone {number}\n"), None));
    }
}

/// Notes that the device did not take what the agent said.
pub fn refused(number: u32, peer: u32) {
    let Some(places) = places() else { return };
    errno_kept(|| {
        note(places, &format!("{number} {peer} none the device refused it\n"));
        _ = exchange(places, &format!("gone {number}\n"), None);
    });
}

/// The source port of an answer `port 50012 left`.
fn granted(words: &str) -> Option<u16> {
    let port: u16 = words.strip_prefix("port ")?.split(' ').next()?.parse().ok()?;
    (port >= FIRST_PORT).then_some(port)
}

/// The port of a LAG, counted from 1, of an answer `port 50012 left`.
fn lag_port(words: &str) -> Option<u8> {
    match words.rsplit(' ').next()? {
        "left" => Some(1),
        "right" => Some(2),
        _ => None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Sends a line, and waits for one if it is a question about this QP.
fn exchange(places: &SteeringFiles, line: &str, question: Option<u32>) -> Result<String, &'static str> {
    let until = now() + PATIENCE;
    // Other threads wait their turn, and no longer than for an answer.
    while ASKING.compare_exchange(false, true, Acquire, Acquire).is_err() {
        if now() >= until {
            return Err("another thread waits for the agent");
        }
        // SAFETY: it only waits.
        unsafe { libc::usleep(200) };
    }
    let done = if now() < NOT_BEFORE.load(Acquire) {
        Err("the agent did not answer a moment ago")
    } else {
        speak(places, line, question, until)
    };
    ASKING.store(false, Release);
    done
}

fn speak(places: &SteeringFiles, line: &str, question: Option<u32>, until: u64) -> Result<String, &'static str> {
    let mut descriptor = DESCRIPTOR.load(Acquire);
    if !is_ours(descriptor) {
        // It is not ours to close.
        DESCRIPTOR.store(-1, Release);
        if question.is_none() {
            return Err("not connected");
        }
        descriptor = connect(places)?;
    }
    let said = send(descriptor, line).and_then(|()| match question {
        Some(number) => receive(descriptor, number, until),
        None => Ok(String::new()),
    });
    match (&said, question) {
        (Ok(_), Some(_)) => IN_VAIN.store(0, Release),
        (Ok(_), None) => {}
        (Err(LATE), Some(number)) => {
            // The answer may come yet, and nobody will use it.
            if send(descriptor, &format!("gone {number}\n")).is_err() {
                disconnect(descriptor);
            }
            pause(VAIN);
        }
        (Err(_), _) => {
            disconnect(descriptor);
            pause(1);
        }
    }
    said
}

/// Asks nothing for a while after so many waits in vain.
fn pause(after: u64) {
    let waits = IN_VAIN.fetch_add(1, Acquire) + 1;
    if waits >= after {
        let length = PAUSE.checked_shl((waits - after).min(6) as u32).unwrap_or(LONGEST_PAUSE);
        NOT_BEFORE.store(now() + length.min(LONGEST_PAUSE), Release);
    }
}

fn disconnect(descriptor: c_int) {
    DESCRIPTOR.store(-1, Release);
    if is_ours(descriptor) {
        // SAFETY: it is the socket that was made here.
        unsafe { libc::close(descriptor) };
    }
}

/// Which file a descriptor is; 0 if it is none.
fn file(descriptor: c_int) -> u64 {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the structure is ours to be written.
    if descriptor < 0 || unsafe { libc::fstat(descriptor, found.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: it was written, and zeros are valid too.
    let found = unsafe { found.assume_init() };
    // Sockets are numbered among each other.
    if found.st_mode & libc::S_IFMT == libc::S_IFSOCK { found.st_ino } else { 0 }
}

fn is_ours(descriptor: c_int) -> bool {
    let found = file(descriptor);
    found != 0 && found == FILE.load(Acquire)
}

fn connect(places: &SteeringFiles) -> Result<c_int, &'static str> {
    let failed = || {
        pause(1);
        "no agent listens"
    };
    // SAFETY: all fields are integers, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let path = places.socket.as_bytes_with_nul();
    if path.len() > address.sun_path.len() {
        return Err("the path of the agent's socket is too long");
    }
    for (place, byte) in address.sun_path.iter_mut().zip(path) {
        *place = *byte as libc::c_char;
    }
    // SAFETY: no pointers are passed.
    let descriptor =
        unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if descriptor < 0 {
        return Err(failed());
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address lives through the call and has this length.
    if unsafe { libc::connect(descriptor, (&raw const address).cast(), length) } != 0 {
        // SAFETY: it was made above.
        unsafe { libc::close(descriptor) };
        return Err(failed());
    }
    FILE.store(file(descriptor), Release);
    DESCRIPTOR.store(descriptor, Release);
    Ok(descriptor)
}

fn send(descriptor: c_int, line: &str) -> Result<(), &'static str> {
    // SAFETY: the line lives through the call. A peer that is gone shall not end the program by a signal.
    let sent = unsafe { libc::send(descriptor, line.as_ptr().cast(), line.len(), libc::MSG_NOSIGNAL) };
    if sent == line.len() as isize { Ok(()) } else { Err("the agent is gone") }
}

/// What is said when the wait is over.
const LATE: &str = "the agent did not answer in 50 ms";

/// The answer about a QP; those to earlier questions, which came late, are passed over.
fn receive(descriptor: c_int, number: u32, until: u64) -> Result<String, &'static str> {
    let (mut answer, mut length) = ([0_u8; ANSWER], 0);
    let about = format!("{number} ");
    loop {
        let left = until.saturating_sub(now()).div_ceil(1_000_000);
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor is ours to be written to.
        let ready = unsafe { libc::poll(&raw mut poll, 1, left as c_int) };
        if ready == 0 || now() >= until {
            return Err(LATE);
        }
        if ready < 0 {
            continue;
        }
        let room = &mut answer[length..];
        // SAFETY: the room is ours.
        let read = unsafe { libc::recv(descriptor, room.as_mut_ptr().cast(), room.len(), 0) };
        if read <= 0 {
            return Err("the agent is gone");
        }
        length += read as usize;
        while let Some(end) = answer[..length].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&answer[..end]).map_err(|_| "the agent's answer is no text")?;
            if let Some(words) = line.strip_prefix(&about) {
                return Ok(words.to_owned());
            }
            answer.copy_within(end + 1..length, 0);
            length -= end + 1;
        }
        if length == ANSWER {
            return Err("the agent's answer is too long");
        }
    }
}

/// Adds a line to the file of this process, if that is wanted and fits.
fn note(places: &SteeringFiles, line: &str) {
    let Some(folder) = &places.folder else { return };
    let name = format!("/{}.steered", std::process::id());
    let Ok(path) = CString::new([folder.as_bytes(), name.as_bytes()].concat()) else { return };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours to be written. Going past it would send a signal that ends the process.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } != 0 || limit.rlim_cur < 2 * LONGEST {
        return;
    }
    if let Ok(file) = Descriptor::open(&path) {
        file.append(line.as_bytes(), LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_port_or_nothing() {
        for (words, port) in [
            ("port 50012 left", Some(50_012)),
            ("port 50012", Some(50_012)),
            ("port 4791 left", None),
            ("port 70000", None),
            ("none no catalog", None),
            ("", None),
        ] {
            assert_eq!(granted(words), port, "{words}");
        }
        assert_eq!(["port 1 left", "port 1 right", "port 1", ""].map(lag_port), [Some(1), Some(2), None, None]);
    }
}
