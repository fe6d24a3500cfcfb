//! A guest's control port: one client at a time reads what the guest says and is heard by it. What is said, it does not
//! know.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often it looks whether the guest has ended.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How long a client, or the guest, may take to read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects clients with the guest, until it has ended.
pub fn serve(guest: &UnixStream, listener: &UnixListener, ended: &AtomicBool) -> Result<()> {
    guest.set_write_timeout(Some(PATIENCE)).context("prepare the control port")?;
    let mut client: Option<UnixStream> = None;
    while !ended.load(Ordering::Relaxed) {
        let (from_guest, from_client) = ready(guest, listener, client.as_ref())?;
        if from_guest {
            let Some(said) = receive(guest) else { return Ok(()) };
            // What nobody listens to is lost, as on a serial line.
            client = client.filter(|mut client| client.write_all(&said).is_ok());
        }
        if from_client {
            client = match client {
                None => Some(accept(listener)?),
                Some(client) => receive(&client).and_then(|said| {
                    let mut guest = guest;
                    guest.write_all(&said).is_ok().then_some(client)
                }),
            };
        }
    }
    Ok(())
}

/// Waits until the guest, or the client or the next one, has something; whether they do.
fn ready(guest: &UnixStream, listener: &UnixListener, client: Option<&UnixStream>) -> Result<(bool, bool)> {
    let mut files = [
        PollFd::new(guest, PollFlags::IN),
        client.map_or_else(|| PollFd::new(listener, PollFlags::IN), |client| PollFd::new(client, PollFlags::IN)),
    ];
    match poll(&mut files, Some(&TURN)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("wait for the control port"),
    }
    Ok((!files[0].revents().is_empty(), !files[1].revents().is_empty()))
}

fn accept(listener: &UnixListener) -> Result<UnixStream> {
    let (client, _) = listener.accept().context("accept at the control port")?;
    client.set_write_timeout(Some(PATIENCE)).context("prepare a client")?;
    Ok(client)
}

/// What there is to read; `None` at the end.
fn receive(mut stream: &UnixStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => None,
        Ok(count) => {
            bytes.truncate(count);
            Some(bytes)
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Some(Vec::new()),
        Err(_) => None,
    }
}
