//! Connections from a port of this machine to the agent in a guest, over an Ethernet link that both ends have for
//! themselves. A TCP stack of its own (smoltcp) is at this end, so it needs neither root nor a network of the machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant as StackInstant};
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

/// This end of the link, and the agent at the other, as `tests/guests/init` sets it up.
const HERE: IpAddress = IpAddress::v4(10, 0, 2, 2);
const AGENT: (IpAddress, u16) = (IpAddress::v4(10, 0, 2, 15), 7471);
const MAC: EthernetAddress = EthernetAddress([0x52, 0x54, 0, 0x4b, 0x0f, 0]);

/// Source: IEEE 802.3, an MTU of 1500 bytes with its header.
const FRAME: usize = 1514;

/// Connections at once. Source: our choice, because an agent serves one controller and turns others away.
const MOST: usize = 64;

/// Units: bytes, each way.
const BUFFER: usize = 64 << 10;

/// How long the guest may leave data without an acknowledgement.
const SILENCE: Duration = Duration::from_secs(120);

/// Longest wait, after which it looks whether the guest has ended. Units: microseconds.
const TURN: u32 = 100_000;

/// Local ports of the stack. Source: RFC 6335, section 6, dynamic ports.
const PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Carries connections until the guest has ended.
pub fn serve(listener: &TcpListener, link: UnixDatagram, ended: &AtomicBool) -> Result<()> {
    listener.set_nonblocking(true).context("prepare the port of an agent")?;
    link.set_nonblocking(true).context("prepare the link of an agent")?;
    let began = Instant::now();
    let now = || StackInstant::from_micros(began.elapsed().as_micros() as i64);
    let mut device = Link(link);
    let mut interface = Interface::new(Config::new(MAC.into()), &mut device, now());
    interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(HERE, 24)).expect("there is room for one"));
    let mut sockets = SocketSet::new(Vec::new());
    let mut connections: Vec<Connection> = Vec::new();
    let mut ports = PORTS.cycle();
    while !ended.load(Ordering::Relaxed) {
        while connections.len() < MOST {
            let Some(stream) = accepted(listener)? else { break };
            let port = ports.next().expect("it begins again");
            connections.push(Connection::open(stream, port, &mut interface, &mut sockets)?);
        }
        interface.poll(now(), &mut device, &mut sockets);
        for connection in &mut connections {
            connection.carry(sockets.get_mut(connection.socket));
        }
        // What was written meanwhile.
        interface.poll(now(), &mut device, &mut sockets);
        connections.retain(|connection| {
            let is_open = sockets.get::<Socket>(connection.socket).is_active();
            if !is_open {
                sockets.remove(connection.socket);
            }
            is_open
        });
        let wait =
            interface.poll_delay(now(), &sockets).map_or(TURN, |delay| delay.total_micros().min(TURN.into()) as u32);
        sleep(listener, &device, &connections, &sockets, wait)?;
    }
    Ok(())
}

fn accepted(listener: &TcpListener) -> Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Ok(Some(stream)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error).context("accept at the port of an agent"),
    }
}

/// Waits until there is something to carry, or for so many microseconds.
fn sleep(
    listener: &TcpListener,
    device: &Link,
    connections: &[Connection],
    sockets: &SocketSet,
    micros: u32,
) -> Result<()> {
    let mut files = vec![PollFd::new(&device.0, PollFlags::IN)];
    if connections.len() < MOST {
        files.push(PollFd::new(listener, PollFlags::IN));
    }
    for connection in connections {
        let wanted = connection.wanted(sockets.get(connection.socket));
        if !wanted.is_empty() {
            files.push(PollFd::new(&connection.stream, wanted));
        }
    }
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(micros) * 1000 };
    match poll(&mut files, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("wait for an agent's connections"),
    }
}

/// A connection of this machine, and the guest's half of it.
struct Connection {
    stream: TcpStream,
    socket: SocketHandle,
    /// The stream's end was read, and passed on.
    is_read: bool,
    /// The guest's end was passed on.
    is_written: bool,
}

impl Connection {
    fn open(stream: TcpStream, port: u16, interface: &mut Interface, sockets: &mut SocketSet) -> Result<Self> {
        stream.set_nonblocking(true).context("prepare a connection")?;
        stream.set_nodelay(true).context("prepare a connection")?;
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        // Both ends of Kelpie's own connections send whole frames: nothing is to wait for more.
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket.set_timeout(Some(SILENCE));
        let begun = socket.connect(interface.context(), AGENT, port);
        begun.map_err(|error| anyhow!("connect to an agent: {error}"))?;
        Ok(Self { stream, socket: sockets.add(socket), is_read: false, is_written: false })
    }

    /// Moves what there is, both ways.
    fn carry(&mut self, socket: &mut Socket) {
        let done = self.carry_in(socket).and_then(|()| self.carry_out(socket));
        if done.is_err() {
            socket.abort();
        }
    }

    /// From this machine into the guest.
    fn carry_in(&mut self, socket: &mut Socket) -> std::io::Result<()> {
        while socket.can_send() && !self.is_read {
            let read = socket.send(|room| match (&self.stream).read(room) {
                Ok(count) => (count, Ok(count)),
                Err(error) => (0, Err(error)),
            });
            match read.expect("it can send") {
                Ok(0) => {
                    self.is_read = true;
                    socket.close();
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// From the guest.
    fn carry_out(&mut self, socket: &mut Socket) -> std::io::Result<()> {
        while socket.can_recv() {
            let written = socket.recv(|bytes| match (&self.stream).write(bytes) {
                Ok(count) => (count, Ok(())),
                Err(error) => (0, Err(error)),
            });
            match written.expect("it can receive") {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // Not before it is connected, when nothing was received because nothing could be.
        let is_over = !socket.may_recv() && (socket.may_send() || self.is_read);
        if is_over && !self.is_written {
            self.is_written = true;
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// What of the stream is worth waking up for.
    fn wanted(&self, socket: &Socket) -> PollFlags {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, socket.can_send() && !self.is_read);
        wanted.set(PollFlags::OUT, socket.can_recv());
        wanted
    }
}

/// The link as the stack sees it.
struct Link(UnixDatagram);

impl phy::Device for Link {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: StackInstant) -> Option<(Received, Sender<'_>)> {
        let mut frame = vec![0; FRAME];
        let count = self.0.recv(&mut frame).ok()?;
        frame.truncate(count);
        Some((Received(frame), Sender(&self.0)))
    }

    fn transmit(&mut self, _: StackInstant) -> Option<Sender<'_>> {
        Some(Sender(&self.0))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities
    }
}

struct Received(Vec<u8>);

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

struct Sender<'a>(&'a UnixDatagram);

impl phy::TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut frame = vec![0; length];
        let result = write(&mut frame);
        // A frame that finds no room is lost, as on any link; TCP sends it again.
        let _ = self.0.send(&frame);
        result
    }
}
