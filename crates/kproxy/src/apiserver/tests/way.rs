//! Through proxies, and past what does not answer.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::{fs, io, thread};

use super::fake::{Asked, Fake, Reply};
use super::*;

type Shake = fn(&mut TcpStream) -> io::Result<()>;

/// Takes a hand for one connection after the other, then passes on what is said.
fn proxy(server: SocketAddr, shake: Shake) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming() {
            let mut near = near.unwrap();
            shake(&mut near).unwrap();
            let mut far = TcpStream::connect(server).unwrap();
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut from, &mut to));
            thread::spawn(move || io::copy(&mut far, &mut near));
        }
    });
    address
}

fn take<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// RFC 1928 and 1929.
fn socks(stream: &mut TcpStream) -> io::Result<()> {
    let [version, methods] = take(stream)?;
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered)?;
    assert!(version == 5 && offered.contains(&2));
    stream.write_all(&[5, 2])?;
    assert_eq!(&take::<7>(stream)?, b"\x01\x02me\x02pw");
    stream.write_all(&[1, 0])?;
    // CONNECT to an IPv4 address.
    let [version, command, _, kind] = take(stream)?;
    assert_eq!((version, command, kind), (5, 1, 1));
    let _address_and_port: [u8; 6] = take(stream)?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
}

/// RFC 9110, 9.3.6.
fn http(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(take::<1>(stream)?);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("CONNECT 127.0.0.1:"), "{head}");
    let head = head.to_lowercase();
    assert!(
        head.contains("proxy-authorization: basic bwu6chc="),
        "{head}"
    );
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")
}

#[test]
fn the_proxy_of_a_kubeconfig_is_gone_through() {
    for (scheme, shake) in [("socks5", socks as Shake), ("http", http)] {
        let fake = Fake::start_secure(|asked: &Asked| {
            assert_eq!(asked.header("accept-encoding"), "");
            Reply::all(asked, "1", &[])
        });
        let proxy = proxy(fake.address, shake);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let config = json!({"current-context": "it", "clusters": [{"name": "it", "cluster": {
                "server": fake.url(), "insecure-skip-tls-verify": true, "disable-compression": true,
                "proxy-url": format!("{scheme}://me:pw@{proxy}")}}],
            "contexts": [{"name": "it", "context": {"cluster": "it"}}]});
        fs::write(&file, config.to_string()).unwrap();
        let options = ConnectionOptions {
            kubeconfig: Some(file),
            qps: -1.0,
            ..ConnectionOptions::default()
        };
        let running = Running::start(reader(options, quick()));
        assert_eq!(running.changes.len(), 0, "{scheme}");
    }
}

/// That says nothing about what the server knows: thousands of nodes that would ask for pages from then on
/// are the last thing it needs.
#[test]
fn a_server_that_does_not_begin_to_answer_is_asked_for_a_stream_again() {
    let fake = Fake::start(|asked: &Asked| Reply::all(asked, "1", &[]));
    let silent = Arc::new(AtomicBool::new(true));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, server) = (listener.local_addr().unwrap(), fake.address);
    let is_silent = Arc::clone(&silent);
    thread::spawn(move || {
        let mut held = Vec::new();
        for near in listener.incoming() {
            let mut near = near.unwrap();
            if is_silent.load(Ordering::SeqCst) {
                held.push(near);
                continue;
            }
            let mut far = TcpStream::connect(server).unwrap();
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut from, &mut to));
            thread::spawn(move || io::copy(&mut far, &mut near));
        }
    });
    let pace = Pace {
        silence: Duration::from_millis(500),
        ..quick()
    };
    let mut reader = reader(options(format!("http://{address}")), pace);
    let board = reader.board();
    let loading = thread::spawn(move || reader.load(&never(), |_| ()).unwrap());
    until(|| board.snapshot().iter().all(|it| it.errors >= 3));
    silent.store(false, Ordering::SeqCst);
    assert_eq!(loading.join().unwrap(), Loaded::Synced);
    let first = fake.asked(Kind::Service).remove(0);
    assert!(first.is_stream(), "pages: {}", first.query);
}
