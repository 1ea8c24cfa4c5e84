//! Events go to the API server.

use core::time::Duration;
use std::io;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::{Event, Sink, SinkError, Told};
use crate::apiserver::{Client, ClientError};

/// How long the API server may take, retries included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates events by the API.
#[derive(Debug)]
pub struct ApiSink {
    client: Client,
    /// Only waits here: the client's requests run on a runtime of its own.
    runtime: Runtime,
}

impl ApiSink {
    /// # Errors
    /// When there can be no runtime.
    pub fn new(client: Client) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { client, runtime })
    }
}

impl Sink for ApiSink {
    fn create(&mut self, event: &Event) -> Result<Told, SinkError> {
        let object = event.object().to_string().into_bytes();
        let path = event.path();
        let created = async { timeout(PATIENCE, self.client.post_json(&path, object)).await };
        match self.runtime.block_on(created) {
            Ok(Ok(_)) => Ok(Told::Created),
            Ok(Err(ClientError::Refused(refusal))) => match refusal.code {
                409 => Ok(Told::Known),
                // Too many requests, or the server's own trouble.
                429 | 500.. => Err(SinkError::Failed(refusal.to_string())),
                _ => Err(SinkError::Refused(refusal.to_string())),
            },
            Ok(Err(error)) => Err(SinkError::Failed(error.to_string())),
            Err(_) => Err(SinkError::Failed("no answer".to_owned())),
        }
    }
}
