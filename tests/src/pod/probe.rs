//! HTTP probes.

use core::{net::SocketAddr, time::Duration};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use anyhow::{Context as _, Result, anyhow};
use netns_lab::NamespaceRef;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request as a kubelet sends one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProbe {
    /// Path.
    pub path: String,
    /// Port of the node.
    pub port: u16,
}

impl HttpProbe {
    /// Status of the answer.
    pub(super) fn send(&self, node: &NamespaceRef) -> Result<u16> {
        let text = self.fetch(node)?;
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        status.with_context(|| format!("not HTTP: {text}"))
    }

    /// The whole answer, with its head.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn fetch(&self, node: &NamespaceRef) -> Result<String> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let node = node.clone();
        let connected = std::thread::spawn(move || -> Result<_> {
            node.enter()?;
            Ok(TcpStream::connect_timeout(&address, PATIENCE)?)
        });
        let mut stream = connected
            .join()
            .map_err(|_| anyhow!("a thread panicked"))??;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {} HTTP/1.0\r\n\r\n", self.path)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}
