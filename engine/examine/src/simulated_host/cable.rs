//! The cable between two simulated hosts, over which each learns the model of the other. Neither waits for the other to
//! listen: the kernel keeps what was sent until it is asked for.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use kelpie_engine::verbs_host::{GroupEndpoint, HostError};

/// What every message begins with; the number of the session and the model follow.
const TAG: &str = "kelpie-simulated-cable/1 ";
const TAG_OF_ALL_VERSIONS: &str = "kelpie-simulated-cable/";

/// Longest message, which the kernel keeps as a whole. Units: bytes. Source: our choice, several times the longest
/// model that comes along.
const LONGEST: usize = 60 << 10;

/// How long a connection may take to be made, and its message to be sent or to come. Source: our choice.
const LIMIT: Duration = Duration::from_secs(1);

/// Pause between looks.
const STEP: Duration = Duration::from_millis(2);

/// One end: where the other host sends its model to.
#[derive(Debug)]
pub struct Cable {
    listener: TcpListener,
    address: SocketAddr,
    /// Number of the session, which the controller hands to the other host: nobody else knows it. 24 bits.
    session: u32,
}

impl Cable {
    /// An end at this address of the host.
    pub fn at(ip: IpAddr) -> Result<Self, HostError> {
        let lay = || {
            let listener = TcpListener::bind((ip, 0))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let session = (RandomState::new().hash_one(address) >> 40) as u32;
            Ok(Self { listener, address, session })
        };
        lay().map_err(|error: io::Error| HostError::Failed(format!("cannot lay a simulated cable at {ip}: {error}")))
    }

    /// GID and LID by which the other host finds it: address and port.
    pub fn gid_and_lid(&self) -> ([u8; 16], u16) {
        let address = match self.address.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        (address.octets(), self.address.port())
    }

    /// Number of the session.
    pub fn session(&self) -> u32 {
        self.session
    }

    /// Sends a model to the end at the other host, which need not ask for it yet.
    pub fn send(to: &GroupEndpoint, model: &str) -> Result<(), HostError> {
        let address = SocketAddr::new(Ipv6Addr::from(to.gid).to_canonical(), to.lid);
        let session = to.qps.first().map_or(0, |qp| qp.psn);
        let message = format!("{TAG}{session:06x}\n{model}");
        if message.len() > LONGEST {
            return Err(HostError::Unsupported(format!("a model of over {LONGEST} bytes has no room on the cable")));
        }
        let send = || {
            let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
            stream.set_write_timeout(Some(LIMIT))?;
            stream.write_all(message.as_bytes())?;
            stream.shutdown(Shutdown::Write)
        };
        send().map_err(|error| {
            HostError::Failed(format!(
                "no simulated host at {address}, where the other agent says it is ({error}); both agents of a pair have \
                 to be simulated, and to reach each other"
            ))
        })
    }

    /// The model of the other host; none if it does not come in this time.
    pub fn receive(&self, patience: Duration) -> Result<Option<String>, HostError> {
        let until = Instant::now() + patience;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // Whoever else comes is not heard.
                    if let Some(model) = read(stream).ok().map(|text| self.model(&text)).transpose()?.flatten() {
                        return Ok(Some(model));
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if Instant::now() >= until {
                        return Ok(None);
                    }
                    thread::sleep(STEP);
                }
                Err(error) => return Err(HostError::Failed(format!("the simulated cable: {error}"))),
            }
        }
    }

    /// The model in a message, if it is for this session.
    fn model(&self, message: &str) -> Result<Option<String>, HostError> {
        let Some((first, model)) = message.split_once('\n') else { return Ok(None) };
        match first.strip_prefix(TAG) {
            Some(session) if session == format!("{:06x}", self.session) => Ok(Some(model.to_owned())),
            None if first.starts_with(TAG_OF_ALL_VERSIONS) => {
                Err(HostError::Failed("the other simulated host is of another version of Kelpie".to_owned()))
            }
            _ => Ok(None),
        }
    }
}

/// A whole message, which has come already.
fn read(mut stream: TcpStream) -> io::Result<String> {
    stream.set_nonblocking(false)?;
    let until = Instant::now() + LIMIT;
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > LONGEST {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into()),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use kelpie_engine::plan::{GroupId, Role};
    use kelpie_engine::verbs_host::QpEndpoint;

    use super::*;

    fn endpoint(cable: &Cable, session: u32) -> GroupEndpoint {
        let (gid, lid) = cable.gid_and_lid();
        let qps = vec![QpEndpoint { qpn: 1, psn: session, mrs: Vec::new() }];
        let id = GroupId { flow: 0, role: Role::Requester };
        GroupEndpoint { id, gid, lid, needs_grh: false, reads: 1, qps }
    }

    #[test]
    fn a_model_comes_through_and_strangers_are_not_heard() {
        let cable = Cable::at(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        assert_eq!(cable.receive(Duration::ZERO), Ok(None));
        let mut stranger = TcpStream::connect(cable.address).expect("anybody can");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is kept");
        drop(stranger);
        Cable::send(&endpoint(&cable, cable.session ^ 1), "of an earlier session").expect("it is kept");
        let model = "x".repeat(LONGEST - 100);
        Cable::send(&endpoint(&cable, cable.session), &model).expect("it is kept");
        assert_eq!(cable.receive(Duration::from_secs(5)), Ok(Some(model)));
        let mut newer = TcpStream::connect(cable.address).expect("anybody can");
        newer.write_all(b"kelpie-simulated-cable/2 000000\nx").expect("it is kept");
        drop(newer);
        let error = cable.receive(Duration::from_secs(5)).expect_err("another version").to_string();
        assert!(error.contains("another version"), "{error}");
        let endpoint = endpoint(&cable, cable.session);
        assert!(Cable::send(&endpoint, &"x".repeat(LONGEST)).is_err());
        drop(cable);
        let error = Cable::send(&endpoint, "x").expect_err("nobody is there").to_string();
        assert!(error.contains("both agents of a pair have to be simulated"), "{error}");
    }
}
