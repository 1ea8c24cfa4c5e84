//! A site at a loopback address, asked as a browser would.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

/// Longest wait for an answer; passes only when the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Site(pub(crate) String);

impl Site {
    pub(crate) fn page(&self, path: &str) -> String {
        let (code, page) = self.ask(path);
        assert_eq!(code, 200, "{path}: {page}");
        page
    }

    pub(crate) fn ask(&self, path: &str) -> (u16, String) {
        self.try_ask(path).unwrap()
    }

    pub(crate) fn try_ask(&self, path: &str) -> io::Result<(u16, String)> {
        let mut connection = TcpStream::connect(self.0.parse::<SocketAddr>().unwrap())?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(ended)?;
        let head = head.to_ascii_lowercase();
        if path.starts_with("/statusz") && head.contains("text/html") {
            assert!(
                head.contains("content-security-policy: default-src 'none'"),
                "{head}"
            );
            assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        }
        Ok((
            head.split(' ').nth(1).unwrap().parse().unwrap(),
            // Digits are grouped by narrow spaces that nobody types.
            body.replace('\u{202f}', " "),
        ))
    }
}

/// Where a link with this text leads.
pub(crate) fn link(page: &str, text: &str) -> Option<String> {
    let before = page.split_once(&format!("\">{text}</a>"))?.0;
    let link = before.rsplit_once("<a href=\"")?.1;
    Some(link.replace("&amp;", "&"))
}
