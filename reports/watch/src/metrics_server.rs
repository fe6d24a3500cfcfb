//! A server of metrics for scrapers on this machine: one page, few connections, no bodies. What is on the page lives
//! with the commands.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Media type of the page. Source: OpenMetrics 1.0, section "Protocol Negotiation".
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Longest head of a request. Units: bytes. Source: our choice; a scraper's has a few hundred.
const MOST_HEAD: usize = 16 << 10;

/// How long the server waits after a connection could not be accepted, for lack of file descriptors most likely.
/// Source: our choice.
const PAUSE: Duration = Duration::from_millis(100);

/// What strangers may take of the server.
#[derive(Debug, Clone, Copy)]
struct ServerLimits {
    /// Connections at once. A newer one takes the place of the oldest, which has been silent for longest.
    connections: usize,
    /// How long a connection lasts at most.
    deadline: Duration,
}

/// Source: our choice of connections; 10 s is how long Prometheus waits for an answer (`scrape_timeout`).
const LIMITS: ServerLimits = ServerLimits { connections: 64, deadline: Duration::from_secs(10) };

impl ServerLimits {
    /// When a connection that begins now is told that there is no page yet: before it ends.
    fn answer_by(self) -> Instant {
        Instant::now() + self.deadline * 4 / 5
    }
}

/// A page, or why there is none at present.
type Page = Result<String, String>;

/// A scraper that waits for its page.
#[derive(Debug)]
pub struct Scrape(oneshot::Sender<Page>);

impl Scrape {
    /// Whether somebody still waits for it.
    fn is_awaited(&self) -> bool {
        !self.0.is_closed()
    }

    /// Gives it the page, or says why there is none at present.
    pub fn answer(self, page: Page) {
        // A scraper that went away is no failure.
        let _ = self.0.send(page);
    }
}

/// Scrapers as they come.
#[derive(Debug)]
pub struct Scrapes {
    address: SocketAddr,
    /// One waits here, the others in their connections, so that a scraper that goes away leaves the queue.
    queue: Receiver<Scrape>,
    /// Of the runtime that serves, whose clock is used.
    runtime: Handle,
}

impl Scrapes {
    /// Listens on a loopback address until the process ends; `example` is one that would do.
    ///
    /// # Errors
    /// The address is not loopback, or somebody else listens there.
    pub fn listen(listen: SocketAddr, example: &str) -> anyhow::Result<Self> {
        if !listen.ip().is_loopback() {
            bail!(
                "--listen {listen}: metrics carry no secret and no password, so only loopback is served; try {example}"
            );
        }
        let connections = LIMITS.connections.min(free_descriptors() / 2).max(1);
        Self::within(listen, ServerLimits { connections, ..LIMITS }).with_context(|| format!("listen on {listen}"))
    }

    fn within(listen: SocketAddr, limits: ServerLimits) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(listen))?;
        let address = listener.local_addr()?;
        let (scrapes, queue) = channel(1);
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(accept(&listener, &scrapes, limits)));
        Ok(Self { address, queue, runtime: handle })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next scraper, if one comes in this time.
    pub fn next(&mut self, wait: Duration) -> Option<Scrape> {
        let queue = &mut self.queue;
        self.runtime.block_on(async {
            let next = async {
                loop {
                    match queue.recv().await {
                        Some(gone) if !gone.is_awaited() => {}
                        next => return next,
                    }
                }
            };
            timeout(wait, next).await.ok().flatten()
        })
    }

    /// Gives every scraper what `page` is then, on a thread of its own.
    pub fn answer_each(mut self, page: impl Fn() -> String + Send + 'static) {
        std::thread::spawn(move || {
            while let Some(scrape) = self.queue.blocking_recv() {
                if scrape.is_awaited() {
                    scrape.answer(Ok(page()));
                }
            }
        });
    }
}

/// File descriptors that the process may still open.
fn free_descriptors() -> usize {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(open)
}

async fn accept(listener: &TcpListener, scrapes: &Sender<Scrape>, limits: ServerLimits) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = listener.accept().await;
        open.retain(|connection| !connection.is_finished());
        let Ok((stream, _)) = accepted else {
            open.drain(..open.len().min(1)).for_each(|oldest| oldest.abort());
            sleep(PAUSE).await;
            continue;
        };
        if open.len() >= limits.connections {
            open.drain(..1).for_each(|oldest| oldest.abort());
        }
        open.push_back(
            tokio::spawn(timeout(limits.deadline, serve(stream, scrapes.clone(), limits.answer_by()))).abort_handle(),
        );
    }
}

/// Answers one request. Its body is never read, however long it says to be.
async fn serve(stream: TcpStream, scrapes: Sender<Scrape>, answer_by: Instant) {
    let service = service_fn(|request: Request<Incoming>| {
        let scrapes = scrapes.clone();
        async move { Ok::<_, Infallible>(answer(&request, &scrapes, answer_by).await) }
    });
    let mut http = http1::Builder::new();
    let connection = http.keep_alive(false).max_buf_size(MOST_HEAD).serve_connection(TokioIo::new(stream), service);
    // A scraper that went away, or that speaks no HTTP, is no failure.
    let _ = connection.await;
}

async fn answer(request: &Request<Incoming>, scrapes: &Sender<Scrape>, answer_by: Instant) -> Response<String> {
    if request.uri().path() != "/metrics" {
        return text(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    let page = async {
        let (send, page) = oneshot::channel();
        scrapes.send(Scrape(send)).await.ok()?;
        page.await.ok()
    };
    match timeout_at(answer_by, page).await {
        Ok(Some(Ok(page))) => response(StatusCode::OK, OPEN_METRICS, page),
        Ok(Some(Err(why))) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
        Ok(None) => text(StatusCode::SERVICE_UNAVAILABLE, "ending\n"),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "busy: no page in time; try again\n"),
    }
}

fn text(status: StatusCode, text: &str) -> Response<String> {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    fn server(limits: ServerLimits) -> SocketAddr {
        let scrapes = Scrapes::within(SocketAddr::from(([127, 0, 0, 1], 0)), limits).expect("it listens");
        let address = scrapes.address();
        scrapes.answer_each(|| "a 1\n# EOF\n".to_owned());
        address
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a socket");
        stream
    }

    /// What is answered until the server closes the connection.
    fn rest(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("it stays open: {error}"),
            _ => String::from_utf8(answer).expect("text"),
        }
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = connect(address);
        // The server may close before it was sent all of it.
        let _ = stream.write_all(request.as_bytes());
        rest(stream)
    }

    fn get(address: SocketAddr) -> String {
        ask(address, "GET /metrics HTTP/1.1\r\nHost: kelpie\r\n\r\n")
    }

    #[test]
    fn the_page_is_at_one_path_by_one_method() {
        let address = server(LIMITS);
        let page = get(address);
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\na 1\n# EOF\n"), "{page}");
        assert!(page.contains(&format!("content-type: {OPEN_METRICS}\r\n")), "{page}");
        let long = format!("GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(2 * MOST_HEAD));
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
            (&long, "431"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
    }

    #[test]
    fn no_body_is_waited_for_however_long_it_says_to_be() {
        let address = server(LIMITS);
        for length in ["1000", "1000000000000", "18446744073709551614", "99999999999999999999999"] {
            let answer = ask(address, &format!("GET /metrics HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 "), "{length}: {answer}");
            assert!(get(address).starts_with("HTTP/1.1 200"), "after {length}");
        }
    }

    #[test]
    fn a_client_that_never_ends_its_request_is_sent_away() {
        let address = server(ServerLimits { deadline: Duration::from_millis(50), ..LIMITS });
        let mut slow = connect(address);
        slow.write_all(b"GET /met").expect("it listens");
        assert_eq!(rest(slow), "");
    }

    #[test]
    fn who_asks_in_vain_is_told_so_before_the_connection_ends() {
        let limits = ServerLimits { deadline: Duration::from_secs(2), ..LIMITS };
        let scrapes = Scrapes::within(SocketAddr::from(([127, 0, 0, 1], 0)), limits).expect("it listens");
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                std::thread::spawn({
                    let address = scrapes.address();
                    move || get(address)
                })
            })
            .collect();
        for answer in waiting {
            let answer = answer.join().expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("try again\n"), "{answer}");
        }
    }

    #[test]
    fn nothing_is_made_for_who_is_gone() {
        let mut scrapes = Scrapes::within(SocketAddr::from(([127, 0, 0, 1], 0)), LIMITS).expect("it listens");
        let address = scrapes.address();
        for _ in 0..200 {
            connect(address).write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it listens");
        }
        let last = std::thread::spawn(move || get(address));
        let mut made = 0;
        while !last.is_finished() {
            if let Some(scrape) = scrapes.next(Duration::from_millis(500)) {
                made += 1;
                // A page takes its time, in which the server notices who is gone.
                std::thread::sleep(Duration::from_millis(50));
                scrape.answer(Ok("a 1\n# EOF\n".to_owned()));
            }
        }
        assert!(last.join().expect("an answer").starts_with("HTTP/1.1 200"));
        assert!(made < 20, "{made} pages for one scraper");
    }

    #[test]
    fn silent_connections_keep_nobody_out() {
        let address = server(ServerLimits { deadline: Duration::from_hours(1), ..LIMITS });
        let silent: Vec<TcpStream> = (0..300).map(|_| connect(address)).collect();
        assert!(get(address).starts_with("HTTP/1.1 200"));
        for oldest in silent.into_iter().take(300 - LIMITS.connections) {
            assert_eq!(rest(oldest), "");
        }
    }
}
