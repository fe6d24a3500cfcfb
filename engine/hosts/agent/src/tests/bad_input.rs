//! What no controller of this version sends: the agent says what is wrong with it and serves the next one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::fake::{FakeAgent, Trouble};
use crate::wire::{FRAME_LIMIT, HELLO_LIMIT, PROTOCOL};

fn connect(agent: &FakeAgent) -> TcpStream {
    let stream = TcpStream::connect(agent.address).expect("the agent listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

fn frame(text: &str) -> Vec<u8> {
    let mut bytes = length(text.len());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn length(bytes: usize) -> Vec<u8> {
    u32::try_from(bytes).expect("below 4 GiB").to_be_bytes().to_vec()
}

/// The next frame; nothing if the connection ends.
fn answer(stream: &mut TcpStream) -> String {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).is_err() {
        return String::new();
    }
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("the rest of the answer");
    String::from_utf8(answer).expect("JSON")
}

/// Says hello; the connection and the agent's answer.
fn hello(agent: &FakeAgent, protocol: &str, controller: &str) -> (TcpStream, String) {
    let mut stream = connect(agent);
    let text = format!("{{\"kelpie\":\"{protocol}\",\"controller\":\"{controller}\",\"later\":1}}");
    stream.write_all(&frame(&text)).expect("sends");
    let answer = answer(&mut stream);
    (stream, answer)
}

/// As `hello`, once whoever was there before is gone.
fn hello_when_free(agent: &FakeAgent, controller: &str) -> TcpStream {
    let started = Instant::now();
    loop {
        let (stream, answer) = hello(agent, PROTOCOL, controller);
        if !answer.contains("refused") {
            return stream;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{answer}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const SAMPLE: &str = r#"{"call":{"id":7,"deadline_ms":5000,"step":{"Sample":{}}}}"#;

#[test]
fn another_version_is_refused_with_a_reason() {
    let agent = FakeAgent::anywhere();
    let (_stream, answer) = hello(&agent, "agent/999", "tomorrow");
    assert!(answer.contains(&format!("this agent speaks {PROTOCOL}, the controller agent/999")), "{answer}");
    let (_stream, answer) = hello(&agent, PROTOCOL, "today");
    assert!(!answer.contains("refused"), "{answer}");
}

#[test]
fn a_second_controller_is_told_who_has_the_agent() {
    let agent = FakeAgent::anywhere();
    let (first, _) = hello(&agent, PROTOCOL, "first");
    let (_second, answer) = hello(&agent, PROTOCOL, "second");
    let expected = "it serves another controller, first (127.0.0.1)";
    assert!(answer.contains(expected) && answer.contains("\"busy\":true,\"leaving\":false"), "{answer}");
    agent.trouble("tear_down", Trouble::Takes(Duration::from_millis(300)));
    drop(first);
    agent.wait_for("tear_down", 1);
    let (_third, answer) = hello(&agent, PROTOCOL, "third");
    let expected = "first (127.0.0.1), which has left and is being torn down";
    assert!(answer.contains(expected) && answer.contains("\"busy\":true,\"leaving\":true"), "{answer}");
    hello_when_free(&agent, "fourth");
}

#[test]
fn bad_frames_before_the_welcome_are_answered() {
    let agent = FakeAgent::anywhere();
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "a message is longer than 4096 bytes"),
        (length(HELLO_LIMIT + 1), "a message is longer than 4096 bytes"),
        (vec![255; 100_000], "a message is longer than 4096 bytes"),
        (frame("{}"), "a message was not understood: missing field `kelpie`"),
        (frame("{\"kelpie\":"), "a message was not understood: EOF"),
        (frame(SAMPLE), "a message was not understood: missing field `kelpie`"),
        (frame("{\"kelpie\":1}")[..9].to_vec(), "the connection ended within a message"),
        (vec![0, 0], "the connection ended within a message"),
    ] {
        let mut stream = connect(&agent);
        stream.write_all(&bytes).expect("sends");
        stream.shutdown(Shutdown::Write).expect("half closed");
        let answer = answer(&mut stream);
        assert!(answer.contains(&format!("\"refused\":\"{reason}")), "{answer}, not {reason}");
        hello_when_free(&agent, "next");
    }
}

#[test]
fn bad_frames_after_the_welcome_end_the_connection_with_a_reason() {
    let agent = FakeAgent::anywhere();
    let deep = "[".repeat(100_000);
    for (bytes, reason) in [
        (length(FRAME_LIMIT + 1), "a message is longer than 33554432 bytes"),
        (frame("\"reboot\""), "a message was not understood: unknown variant `reboot`"),
        (frame(r#"{"call":{"id":1}}"#), "a message was not understood: missing field `deadline_ms`"),
        (frame(&deep), "a message was not understood"),
        (frame(SAMPLE)[..30].to_vec(), "the connection ended within a message"),
        ([frame(SAMPLE), frame(&SAMPLE.replace('7', "8"))].concat(), "an unexpected message came: a call before"),
    ] {
        agent.trouble("sample", Trouble::Takes(Duration::from_millis(100)));
        let mut stream = hello_when_free(&agent, "odd");
        stream.write_all(&bytes).expect("sends");
        stream.shutdown(Shutdown::Write).expect("half closed");
        let answer = answer(&mut stream);
        assert!(answer.contains("\"farewell\"") && answer.contains(reason), "{answer}, not {reason}");
        let left = std::mem::take(&mut agent.script.lock().expect("whole").trouble);
        assert!(left.len() < 2, "{left:?}");
    }
    hello_when_free(&agent, "even");
}

#[test]
fn a_step_out_of_order_or_an_invalid_workload_fails_and_the_connection_goes_on() {
    let agent = FakeAgent::anywhere();
    let mut stream = hello_when_free(&agent, "odd");
    let workload = r#"{"kelpie":"workload/1","flows":[]}"#;
    let step = format!(r#"{{"SetUp":{{"host":"a","port":{{}},"workload":{workload},"latency":false}}}}"#);
    let set_up = format!(r#"{{"call":{{"id":1,"deadline_ms":5000,"step":{step}}}}}"#);
    stream.write_all(&frame(&set_up)).expect("sends");
    let refused = answer(&mut stream);
    assert!(refused.contains("\"Err\":{\"unsupported\""), "{refused}");
    stream.write_all(&frame(SAMPLE)).expect("sends");
    let reading = answer(&mut stream);
    assert!(reading.contains("\"id\":7") && reading.contains("\"Ok\""), "{reading}");
}

#[test]
fn one_of_a_hundred_at_once_is_served_and_the_others_are_told() {
    let agent = FakeAgent::anywhere();
    let answers: Vec<(TcpStream, String)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..100)
            .map(|n| {
                scope.spawn({
                    let agent = &agent;
                    move || hello(agent, PROTOCOL, &format!("number {n}"))
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    let told = |text: &str| answers.iter().filter(|(_, answer)| answer.contains(text)).count();
    assert_eq!(told("it serves another controller, number"), 99);
    drop(answers);
    hello_when_free(&agent, "next");
}

/// Connections that say nothing, from another address of this machine.
fn silent_from(agent: &FakeAgent, last: u8, count: usize) -> Vec<TcpStream> {
    let connect = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&std::net::SocketAddr::from(([127, 0, 0, last], 0)).into())?;
        socket.connect(&agent.address.into())?;
        Ok::<_, std::io::Error>(TcpStream::from(socket))
    };
    (0..count).map(|_| connect().expect("a connection")).collect()
}

#[test]
fn silent_strangers_keep_nobody_out() {
    let agent = FakeAgent::anywhere();
    // More than there is room for, of more addresses than fill it.
    let crowd: Vec<_> = (2..=10).flat_map(|last| silent_from(&agent, last, 40)).collect();
    for _ in 0..20 {
        drop(hello_when_free(&agent, "us"));
    }
    drop(crowd);
    let crowd = silent_from(&agent, 1, 300);
    drop(hello_when_free(&agent, "us, from the address of the crowd"));
    drop(crowd);
}

#[test]
fn a_flood_of_handshakes_from_elsewhere_keeps_nobody_out() {
    let agent = FakeAgent::anywhere();
    let mut flood: Vec<_> = (2..=10).flat_map(|last| silent_from(&agent, last, 40)).collect();
    for stream in &mut flood {
        // Half of a first message. Some have been sent away by now.
        let _ = stream.write_all(&frame("{\"kelpie\":")[..6]);
    }
    for _ in 0..20 {
        drop(hello_when_free(&agent, "us"));
    }
}
