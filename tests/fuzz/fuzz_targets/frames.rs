//! The decoders of agent and controller over arbitrary bytes that arrive in two pieces: messages or an error.

#![no_main]

use bytes::BytesMut;
use kelpie_agent::wire::{AgentCodec, ControllerCodec, HELLO_LIMIT, Hello, Messages, Welcome, WireError};
use libfuzzer_sys::fuzz_target;
use tokio_util::codec::Decoder;

fuzz_target!(|input: (&[u8], &[u8], bool)| {
    let (head, tail, framed) = input;
    // Most of what the fuzzer makes would end at a wrong length.
    let length = u32::try_from(head.len() + tail.len()).unwrap_or(u32::MAX).to_be_bytes();
    let pieces: [&[u8]; 3] = [if framed { &length } else { &[] }, head, tail];
    decode(AgentCodec::default(), &pieces);
    decode(ControllerCodec::default(), &pieces);
    decode(Messages::<Hello>::up_to(HELLO_LIMIT), &pieces);
    decode(Messages::<Welcome>::up_to(HELLO_LIMIT), &pieces);
});

fn decode<D: Decoder<Error = WireError>>(mut codec: D, pieces: &[&[u8]]) {
    let mut bytes = BytesMut::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        loop {
            match codec.decode(&mut bytes) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    let _ = codec.decode_eof(&mut bytes);
}
