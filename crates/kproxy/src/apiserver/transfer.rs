//! One answer of the server, read as it comes in.

use core::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName,
};
use hyper::{Request, Response};
use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::refusal;
use super::decode::{DecodeError, Decoder, Encoding, Form, Inflate, Item, ListEnd};
use super::{Client, ClientError};
use crate::api::Kind;

/// Most that is read of a refusal.
const REFUSAL: usize = 64 << 10;

/// Why an answer could not be had or read.
#[derive(Debug, Error)]
pub(super) enum TransferError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Decode(DecodeError),
    /// Neither JSON nor protobuf.
    #[error("an answer in {0:?}")]
    Encoding(String),
}

impl From<DecodeError> for TransferError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl TransferError {
    /// Nothing came for too long.
    pub(super) const fn is_silence(&self) -> bool {
        matches!(self, Self::Client(ClientError::Silent { .. }))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Transfer {
    host: String,
    body: Incoming,
    inflate: Option<Inflate>,
    decoder: Decoder,
}

impl Transfer {
    /// Asks, and reads the head of the answer.
    pub(super) async fn begin(
        client: &Client,
        kind: Kind,
        form: Form,
        uri: &str,
        accept: &str,
        patience: Duration,
    ) -> Result<Self, TransferError> {
        let request = Request::get(uri)
            .header(ACCEPT, accept)
            .header(ACCEPT_ENCODING, "gzip")
            .body(Full::default());
        let request = request.map_err(|error| ClientError::Connection {
            host: uri.to_owned(),
            error: error.into(),
        })?;
        let response = client.stream(request, patience).await?;
        let host = client.host().await;
        if !response.status().is_success() {
            return Err(refused(response, patience).await.into());
        }
        let (head, body) = response.into_parts();
        let content_type = text(&head.headers, &CONTENT_TYPE);
        let encoding = Encoding::of(content_type)
            .ok_or_else(|| TransferError::Encoding(content_type.to_owned()))?;
        let inflate = match text(&head.headers, &CONTENT_ENCODING) {
            "" | "identity" => None,
            "gzip" => Some(Inflate::new()),
            other => return Err(TransferError::Encoding(other.to_owned())),
        };
        Ok(Self {
            host,
            body,
            inflate,
            decoder: Decoder::new(kind, encoding, form),
        })
    }

    /// Waits for the next bytes and takes them; `on_item` gets what they complete. False at the end.
    /// After a silence it may be waited on.
    pub(super) async fn next(
        &mut self,
        deadline: Instant,
        silence: Duration,
        on_item: impl FnMut(Item<'_>),
    ) -> Result<bool, TransferError> {
        let until = deadline.min(Instant::now() + silence);
        let frame = match timeout_at(until, self.body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                return Err(ClientError::Connection {
                    host: self.host.clone(),
                    error: error.into(),
                }
                .into());
            }
            Ok(None) => return Ok(false),
            Err(_) => {
                return Err(ClientError::Silent {
                    host: self.host.clone(),
                    after: silence,
                }
                .into());
            }
        };
        if let Ok(bytes) = frame.into_data() {
            self.take(&bytes, on_item).map_err(TransferError::Decode)?;
        }
        Ok(true)
    }

    /// At the end: what a list says of itself; that a watch was not cut within an event.
    pub(super) fn finish(self) -> Result<ListEnd, DecodeError> {
        self.decoder.finish()
    }

    fn take(
        &mut self,
        bytes: &Bytes,
        mut on_item: impl FnMut(Item<'_>),
    ) -> Result<(), DecodeError> {
        let decoder = &mut self.decoder;
        match &mut self.inflate {
            None => decoder.push(bytes, on_item),
            Some(inflate) => inflate.push(bytes, |bytes| decoder.push(bytes, &mut on_item)),
        }
    }
}

async fn refused(response: Response<Incoming>, patience: Duration) -> ClientError {
    let (head, body) = response.into_parts();
    let body = timeout(patience, Limited::new(body, REFUSAL).collect()).await;
    // What it says more than its status is good to have.
    let body = body
        .ok()
        .and_then(Result::ok)
        .map(http_body_util::Collected::to_bytes);
    refusal(head.status, &head.headers, &body.unwrap_or_default()).into()
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}
