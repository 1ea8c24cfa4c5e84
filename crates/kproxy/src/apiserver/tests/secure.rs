//! The fake's TLS and HTTP/2, and how it says GOAWAY (RFC 9113, 6.8).

use core::convert::Infallible;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::process::Command;
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncWriteExt as _, DuplexStream, copy_bidirectional, duplex};
use tokio::net::TcpStream;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::fake::Desk;

/// What a server does to a connection that it does not want any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoAway {
    /// `NO_ERROR`: what was asked is answered to its end, other requests need another connection. So
    /// does kube-apiserver with `--goaway-chance`.
    Drain,
    /// `NO_ERROR`, and the connection ends within what was asked: a balancer that waits no longer.
    Close,
    /// `ENHANCE_YOUR_CALM`, nothing that was asked counts, and the connection ends.
    Refuse,
}

impl GoAway {
    /// The frame: length, type, flags, stream 0, the last stream that counts, error code.
    fn frame(self) -> [u8; 17] {
        let [.., last, code] = match self {
            Self::Drain | Self::Close => [0x7fff_ffff_u32, 0x0],
            Self::Refuse => [0, 0xb],
        };
        let mut frame = [0; 17];
        frame[2] = 8;
        frame[3] = 7;
        frame[9..13].copy_from_slice(&last.to_be_bytes());
        frame[13..].copy_from_slice(&code.to_be_bytes());
        frame
    }
}

/// Lets connections in.
#[derive(Clone)]
pub(super) struct Door {
    acceptor: TlsAcceptor,
    orders: Sender<GoAway>,
    connections: Arc<AtomicUsize>,
}

impl Door {
    /// With a certificate that nobody trusts.
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (key, certificate) = (folder.path().join("key"), folder.path().join("certificate"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-days", "1", "-subj", "/CN=fake"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let certificate = CertificateDer::from_pem_file(certificate).unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            acceptor: Arc::new(config).into(),
            orders: broadcast::channel(8).0,
            connections: Arc::default(),
        }
    }

    pub(super) fn go_away(&self, how: GoAway) {
        self.orders.send(how).unwrap();
    }

    pub(super) async fn serve(self, stream: TcpStream, desk: Desk) {
        let (orders, mut cut) = (self.orders.subscribe(), self.orders.subscribe());
        // Whoever goes away while hands are shaken is no connection.
        let Ok(mut tls) = self.acceptor.accept(stream).await else {
            return;
        };
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let (mut near, far) = duplex(64 << 10);
        tokio::spawn(answer(far, connection, orders, desk));
        let how = tokio::select! {
            _ = copy_bidirectional(&mut tls, &mut near) => return,
            how = until(&mut cut, |how| how != GoAway::Drain) => how,
        };
        // A client that went away first is as well.
        let _ = tls.write_all(&how.frame()).await;
        let _ = tls.shutdown().await;
    }
}

async fn answer(stream: DuplexStream, connection: usize, mut orders: Receiver<GoAway>, desk: Desk) {
    let service = service_fn(|request| {
        let response = desk.answer(&request, connection);
        async { Ok::<_, Infallible>(response) }
    });
    let mut serving = pin!(
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        biased;
        _ = until(&mut orders, |how| how == GoAway::Drain) => {
            serving.as_mut().graceful_shutdown();
        }
        _ = serving.as_mut() => return,
    }
    let _ = serving.await;
}

/// The first such order; never one if there is no fake any more.
async fn until(orders: &mut Receiver<GoAway>, is: impl Fn(GoAway) -> bool) -> GoAway {
    loop {
        match orders.recv().await {
            Ok(how) if is(how) => return how,
            Ok(_) => {}
            Err(_) => core::future::pending().await,
        }
    }
}
