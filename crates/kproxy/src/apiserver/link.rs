//! A way to the server: connections, TLS, and who we say we are.
//!
//! kubeconfig, in-cluster environment, tokens and exec plugins are kube-client's. What a link was
//! made of is remembered: when one of its files changes, the next request makes a new one.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::Config;
use kube_client::client::{AuthError, ConfigExt as _};
use kube_client::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use tower::util::{BoxCloneService, ServiceExt as _};
use tower::{Service, ServiceBuilder};

use super::error::BoxError;
use super::facts::RequestFacts;
use super::{ClientError, ConnectionOptions};
use crate::manifest::FileKey;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);
/// HTTP/2: after so much silence the server is asked whether it is still there
/// (apimachinery/pkg/util/net: `readIdleTimeoutSeconds`).
const ASK_AFTER: Duration = Duration::from_secs(30);
/// And has so long to answer (`pingTimeoutSeconds`).
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// What may be under way on one HTTP/2 stream and connection before it is read; bounds memory, and
/// is more than a round trip needs.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// A connection that nobody uses is closed.
const IDLE: Duration = Duration::from_secs(90);
/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Link {
    service: Mutex<BoxCloneService<Request<Full<Bytes>>, Response<Incoming>, BoxError>>,
    host: String,
    /// Credentials come from a program that somebody would not want to be run all the time.
    plugin: bool,
    made: Instant,
    files: Files,
}

impl Link {
    /// Reads the configuration, and runs its exec plugin if it has one. Connects to nothing yet.
    ///
    /// # Errors
    /// Of files, certificates and plugins.
    pub(super) async fn make(
        options: &ConnectionOptions,
        facts: &RequestFacts,
    ) -> Result<Self, ClientError> {
        let files = Files::of(options);
        let config = load(options).await?;
        let files = files.and(&config.auth_info);
        let plugin = config.auth_info.exec.is_some();
        let host = authority(&config.cluster_url);
        let made = Instant::now();
        let facts = facts.clone();
        // Plugins are run here, and may take their time.
        let connected = tokio::task::spawn_blocking(move || {
            let made = connect(&config);
            if plugin {
                facts.plugin_told(&made);
            }
            made
        });
        let service = connected
            .await
            .map_err(|error| ClientError::Credentials(error.into()))??;
        Ok(Self {
            service: Mutex::new(service),
            host,
            plugin,
            made,
            files,
        })
    }

    /// Host and port.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request; its URI is a path.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, BoxError> {
        let service = self
            .service
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        service.oneshot(request).await
    }

    /// Whether what it was made of has changed.
    pub(super) fn is_outdated(&self) -> bool {
        self.files.changed()
    }

    /// Whether a new one is worth a try after the server did not answer: connections may be dead,
    /// client certificates expired, addresses changed.
    pub(super) fn may_be_replaced(&self) -> bool {
        !self.plugin || self.made.elapsed() >= Duration::from_secs(60)
    }
}

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Link")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl RequestFacts {
    /// One call of an exec plugin, in client-go's words.
    fn plugin_told<T>(&self, made: &Result<T, ClientError>) {
        let Err(ClientError::Credentials(error)) = made else {
            return self.plugin_called("no_error", 0);
        };
        match error.downcast_ref::<kube_client::Error>() {
            Some(kube_client::Error::Auth(AuthError::AuthExecRun { out, .. })) => {
                self.plugin_called("plugin_execution_error", out.status.code().unwrap_or(1));
            }
            Some(kube_client::Error::Auth(AuthError::AuthExecStart(_))) => {
                self.plugin_called("plugin_not_found_error", 1);
            }
            _ => self.plugin_called("client_internal_error", 1),
        }
    }
}

impl ConnectionOptions {
    /// Whether there is a configuration that can be read; connects to nothing, runs nothing.
    ///
    /// # Errors
    /// [`ClientError`]: of the kubeconfig, of `master`, or for want of a Pod's environment.
    pub fn check(&self) -> Result<(), ClientError> {
        if let Some(url) = &self.master {
            master(url)?;
        }
        match (&self.kubeconfig, &self.master) {
            (Some(path), _) => read(path).map(|_| ()),
            (None, Some(_)) => Ok(()),
            (None, None) => incluster().map(|_| ()),
        }
    }
}

fn incluster() -> Result<Config, ClientError> {
    Config::incluster_env().map_err(|error| ClientError::NotInCluster(error.into()))
}

fn read(path: &Path) -> Result<Kubeconfig, ClientError> {
    Kubeconfig::read_from(path).map_err(|error| ClientError::Kubeconfig {
        path: path.to_owned(),
        error: error.into(),
    })
}

async fn load(options: &ConnectionOptions) -> Result<Config, ClientError> {
    let mut config = match (&options.kubeconfig, &options.master) {
        (Some(path), _) => kubeconfig(path).await?,
        (None, Some(url)) => Config::new(master(url)?),
        (None, None) => incluster()?,
    };
    if let Some(url) = &options.master {
        config.cluster_url = master(url)?;
    }
    config.connect_timeout = Some(CONNECT);
    Ok(config)
}

async fn kubeconfig(path: &Path) -> Result<Config, ClientError> {
    let loaded = Config::from_custom_kubeconfig(read(path)?, &KubeConfigOptions::default()).await;
    loaded.map_err(|error| ClientError::Kubeconfig {
        path: path.to_owned(),
        error: error.into(),
    })
}

/// As for kubectl, a host and port alone is HTTP.
fn master(url: &str) -> Result<Uri, ClientError> {
    let url = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let parsed = url.parse::<Uri>();
    parsed.map_err(|error| ClientError::Master {
        url,
        error: error.into(),
    })
}

fn authority(url: &Uri) -> String {
    url.authority()
        .map_or_else(String::new, ToString::to_string)
}

type Sender = BoxCloneService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

fn connect(config: &Config) -> Result<Sender, ClientError> {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(config.connect_timeout);
    http.set_keepalive(Some(ASK_AFTER));
    http.set_tcp_user_timeout(Some(ASK_AFTER + ANSWER_WITHIN));
    match &config.proxy_url {
        None => secure(config, http),
        Some(url) if url.scheme_str() == Some("http") => {
            secure(config, Tunnel::new(url.clone(), http))
        }
        Some(url) => Err(ClientError::Proxy(url.to_string())),
    }
}

fn secure<C>(config: &Config, connector: C) -> Result<Sender, ClientError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let credentials = |error: kube_client::Error| ClientError::Credentials(error.into());
    let tls = config.rustls_client_config().map_err(credentials)?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = name
            .try_into()
            .map_err(|error: rustls_pki_types::InvalidDnsNameError| {
                ClientError::Credentials(error.into())
            })?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = builder.enable_all_versions().wrap_connector(connector);
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http2_keep_alive_interval(ASK_AFTER)
        .http2_keep_alive_timeout(ANSWER_WITHIN)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build::<_, Full<Bytes>>(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer().map_err(credentials)?)
        .option_layer(config.auth_layer().map_err(credentials)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxCloneService::new(service))
}

/// The files a link was made of.
#[derive(Debug)]
struct Files {
    keys: Vec<(PathBuf, Option<FileKey>)>,
    looked: Mutex<Instant>,
}

impl Files {
    /// Before they are read, so that no change is missed.
    fn of(options: &ConnectionOptions) -> Self {
        let mut files = Self {
            keys: Vec::new(),
            looked: Mutex::new(Instant::now()),
        };
        files.keys.extend(options.kubeconfig.iter().map(|path| {
            let key = key(path);
            (path.clone(), key)
        }));
        files
    }

    /// And those that they name. (The API server's own certificate authority in a Pod is read again
    /// by kube-client, as is the token.)
    fn and(mut self, auth: &AuthInfo) -> Self {
        let named = [&auth.token_file, &auth.client_certificate, &auth.client_key];
        for path in named.into_iter().flatten().map(PathBuf::from) {
            let key = key(&path);
            self.keys.push((path, key));
        }
        self
    }

    fn changed(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < LOOK {
            return false;
        }
        *looked = Instant::now();
        self.keys.iter().any(|(path, before)| {
            // A file that is gone for a moment is no better than what was read of it.
            key(path).is_some_and(|now| Some(now) != *before)
        })
    }
}

fn key(path: &Path) -> Option<FileKey> {
    fs::metadata(path)
        .ok()
        .map(|metadata| FileKey::new(&metadata))
}
