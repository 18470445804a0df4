//! A server of one page over HTTP/1.1: GET only, few connections at once, each for a limited time; it never waits for a slow reader.

use super::text::Format;
use kestrel_catalog::{Error, Result};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at once; more are answered with 503.
const MAX: usize = 8;
/// Time limit of a request, and of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a request's head.
const HEAD: usize = 8192;
const HEADERS: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);

/// Gives the page.
pub type Page = dyn Fn(Format) -> String + Send + Sync;

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at an address (port 0: any that is free) and shows `page` at `/metrics`.
    ///
    /// # Errors
    /// When another process listens there, or it is no address of this machine.
    pub fn begin(address: SocketAddr, page: Arc<Page>) -> Result<Self> {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        });
        let (address, listener) = listener.map_err(Error::io("listen at", address.to_string()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || listen(&listener, &page, &flag));
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, page: &Arc<Page>, stop: &AtomicBool) {
    let busy = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            // No client came, or there are no descriptors left for now.
            std::thread::sleep(PAUSE);
            continue;
        };
        let seat = Seat::take(&busy);
        let page = Arc::clone(page);
        // A client that does not read the answer has no use for it.
        std::thread::spawn(move || drop(converse(stream, seat.as_ref(), &*page)));
    }
}

/// A permit for one of the connections that may exist at once.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(busy: &Arc<AtomicUsize>) -> Option<Self> {
        let taken = busy.fetch_add(1, Ordering::SeqCst);
        let seat = Self(Arc::clone(busy));
        (taken < MAX).then_some(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An HTTP answer.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

fn converse(mut stream: TcpStream, seat: Option<&Seat>, page: &Page) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let answer = match seat {
        Some(_) => match head(&mut stream)? {
            Some(bytes) => answer(&bytes, page),
            None => plain("431 Request Header Fields Too Large", "the request is too long"),
        },
        None => {
            // Unread bytes at the close of a connection make the other side lose the answer.
            stream.set_read_timeout(Some(PAUSE))?;
            let _unread = stream.read(&mut [0; 1024]);
            plain("503 Service Unavailable", "too many connections")
        }
    };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Connection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len(),
        if answer.status.starts_with("405") {
            "Allow: GET\r\n"
        } else {
            ""
        },
    );
    let deadline = Instant::now() + PATIENCE;
    let all = [head.as_bytes(), answer.body.as_bytes()].concat();
    let mut rest = all.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        let written = stream.write(rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// The head of a request; `None` if it is too long.
fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut more = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let read = stream.read(&mut more)?;
        bytes.extend_from_slice(&more[..read]);
        if read == 0 || bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            return Ok(Some(bytes));
        }
        if bytes.len() > HEAD {
            return Ok(None);
        }
    }
}

/// The time until then.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn plain(status: &'static str, text: &str) -> Answer {
    Answer {
        status,
        kind: "text/plain; charset=utf-8",
        body: format!("{text}\n"),
    }
}

fn answer(bytes: &[u8], page: &Page) -> Answer {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let whole = request.parse(bytes).is_ok_and(|status| status.is_complete());
    let (Some(method), Some(path), true) = (request.method, request.path, whole) else {
        return plain("400 Bad Request", "this is no request of HTTP/1.1");
    };
    if method != "GET" {
        return plain("405 Method Not Allowed", "only GET is answered");
    }
    match path.split('?').next().unwrap_or_default() {
        "/metrics" => {
            let accept = request
                .headers
                .iter()
                .find(|header| header.name.eq_ignore_ascii_case("accept"));
            let accept = accept.map_or_else(String::new, |header| {
                String::from_utf8_lossy(header.value).into_owned()
            });
            let format = Format::accepted(&accept);
            Answer {
                status: "200 OK",
                kind: format.content_type(),
                body: page(format),
            }
        }
        "/" => plain("200 OK", "Kestrel's agent: metrics are at /metrics"),
        _ => plain("404 Not Found", "metrics are at /metrics"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn only_the_page_is_shown_and_only_to_get() {
        let page = |format: Format| format!("{format:?}");
        let server = Server::begin(([127, 0, 0, 1], 0).into(), Arc::new(page)).unwrap();
        let ask = |request: &str| ask(server.address(), request);
        let page = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\nPrometheus"),
            "{page}"
        );
        let open = ask("GET /metrics?x=1 HTTP/1.1\r\nACCEPT: application/openmetrics-text\r\n\r\n");
        assert!(
            open.contains("application/openmetrics-text; version=1.0.0") && open.ends_with("OpenMetrics")
        );
        for (request, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /etc/passwd HTTP/1.1\r\n\r\n", "404"),
            ("GET / HTTP/1.1\r\n\r\n", "200"),
            ("\x16\x03\x01\r\n\r\n", "400"),
            ("GET\r\n\r\n", "400"),
        ] {
            let answer = ask(request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer}"
            );
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(HEAD));
        assert!(ask(&long).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn a_silent_client_keeps_no_other_waiting() {
        let server = Server::begin(([127, 0, 0, 1], 0).into(), Arc::new(|_| "page".to_owned())).unwrap();
        let request = "GET /metrics HTTP/1.1\r\n\r\n";
        // Those that say nothing take all places, for a while: on a slow machine that may be over before anybody else asks.
        let refused = (0..20).any(|_| {
            let silent: Vec<TcpStream> = (0..MAX)
                .map(|_| TcpStream::connect(server.address()).unwrap())
                .collect();
            let refused = (0..50).any(|_| {
                std::thread::sleep(Duration::from_millis(20));
                ask(server.address(), request).starts_with("HTTP/1.1 503 ")
            });
            drop(silent);
            refused
        });
        assert!(refused, "nobody was refused");
        let served = (0..3000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            ask(server.address(), request).starts_with("HTTP/1.1 200 ")
        });
        assert!(served, "places are given back");
    }
}
