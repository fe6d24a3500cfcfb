//! Asking the kernel over netlink: one request, its attributes, all answers. Which families there are is elsewhere.

use std::io;

use netlink_sys::Socket;

/// Most messages that one request may bring. Source: our choice, because a host has fewer RDMA devices.
const MOST_MESSAGES: usize = 1_024;

const HEADER: usize = 16;
const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
/// `NLM_F_ROOT | NLM_F_MATCH`.
pub const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// What attribute types carry beside their number: `NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`.
const TYPE_MASK: u16 = 0x3fff;

/// A request being written.
#[derive(Debug)]
pub struct NetlinkRequest(Vec<u8>);

impl NetlinkRequest {
    /// A request of this type with the family's own header.
    pub fn new(kind: u16, flags: u16, family_header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(REQUEST | ACKNOWLEDGE | flags).to_ne_bytes());
        bytes.extend_from_slice(family_header);
        Self(bytes)
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend_from_slice(&encoded(kind, value));
        self
    }

    /// Sends it and collects the answers, each without its netlink header. The kernel answers these families before
    /// it returns from sending, so nothing is waited for.
    ///
    /// # Errors
    /// Where the family is not there, the kernel refuses, or an answer is malformed or missing.
    pub fn ask(mut self, protocol: isize) -> io::Result<Vec<Vec<u8>>> {
        let length = u32::try_from(self.0.len()).expect("requests are short");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        socket.send(&self.0, 0)?;
        let mut answers = Vec::new();
        while answers.len() < MOST_MESSAGES {
            let (datagram, _) = socket.recv_from_full()?;
            if collect(&datagram, &mut answers)? {
                return Ok(answers);
            }
        }
        Err(malformed())
    }
}

/// Takes the messages of a datagram; whether it was the last.
fn collect(mut datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while !datagram.is_empty() {
        let header = datagram.get(..HEADER).ok_or_else(malformed)?;
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let body = datagram.get(HEADER..length).ok_or_else(malformed)?;
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let code = body.first_chunk().map(|code| i32::from_ne_bytes(*code)).ok_or_else(malformed)?;
                return if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) };
            }
            _ => answers.push(body.to_vec()),
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is no netlink message")
}

/// An attribute as bytes, padded for the next one.
pub fn encoded(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).expect("attributes of requests are names and numbers");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes in `bytes`, by number; a malformed rest is left out.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]) & TYPE_MASK;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of a number.
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// A text with its closing zero.
pub fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(&u32::try_from(HEADER + body.len()).expect("short").to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn answers_are_collected_until_the_end_and_refusals_are_errors() {
        let mut answers = Vec::new();
        assert!(!collect(&[message(9, b"one"), message(9, b"two!")].concat(), &mut answers).expect("two messages"));
        assert_eq!(answers, [b"one".to_vec(), b"two!".to_vec()]);
        assert!(collect(&message(DONE, &[0; 4]), &mut answers).expect("the end"));
        assert!(collect(&message(ERROR, &0_i32.to_ne_bytes()), &mut answers).expect("an acknowledgement"));
        let refused = collect(&message(ERROR, &(-95_i32).to_ne_bytes()), &mut answers).expect_err("refused");
        assert_eq!(refused.raw_os_error(), Some(95));
        for cut in [1, HEADER - 1, HEADER + 2] {
            assert!(collect(&message(9, b"four")[..cut], &mut answers).is_err(), "{cut}");
        }
        assert!(collect(&[0; HEADER], &mut answers).is_err(), "a length of zero");
    }

    #[test]
    fn attributes_are_what_a_request_holds_and_a_cut_one_is_left_out() {
        let request = NetlinkRequest::new(1, 0, &[7; 4]).with(1, b"rxe0\0").with(0x8000 | 3, &5_u32.to_ne_bytes());
        let body = &request.0[HEADER + 4..];
        assert_eq!(attribute(body, 1).and_then(text), Some("rxe0"));
        assert_eq!(attribute(body, 3), Some(&5_u32.to_ne_bytes()[..]), "flags of the type are no part of its number");
        assert_eq!(attribute(&body[..body.len() - 1], 3), None);
        assert_eq!(attribute(body, 2), None);
        assert_eq!(attributes(&[0; 64]).count(), 0, "a length of zero ends the list");
    }

    #[test]
    fn the_kernel_refuses_what_is_not_there() {
        assert!(NetlinkRequest::new(0xffff, 0, &[0; 4]).ask(0).is_err());
    }
}
