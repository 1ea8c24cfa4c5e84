//! A way to the server: connections, TLS, and who we say we are.
//!
//! Credentials in requests and exec plugins are kube-client's. What a link was made of is remembered:
//! when one of its files changes, the next request makes a new one.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::ACCEPT_ENCODING;
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::Config;
use kube_client::client::{AuthError, ConfigExt as _};
use kube_client::config::ExecConfig;
use tower::util::{BoxCloneService, ServiceExt as _};
use tower::{Service, ServiceBuilder};

use super::error::BoxError;
use super::facts::RequestFacts;
use super::kubeconfig::Settings;
use super::{ClientError, ConnectionOptions};
use crate::manifest::FileKey;

/// How long a connection may take to come about.
pub(super) const CONNECT: Duration = Duration::from_secs(30);
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
    /// Answers may be compressed.
    compresses: bool,
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
        let settings = Settings::load(options)?;
        let files = files.and(settings.files.clone());
        let config = &settings.config;
        let compresses = !config.disable_compression;
        let plugin = config.auth_info.exec.is_some();
        let host = authority(&config.cluster_url);
        let exec = config.auth_info.exec.clone();
        let made = Instant::now();
        let facts = facts.clone();
        // Plugins are run here, and may take their time.
        let connected = tokio::task::spawn_blocking(move || {
            let made = connect(&settings);
            if plugin {
                facts.plugin_told(&made);
            }
            made
        });
        let service = connected
            .await
            .map_err(|error| ClientError::Credentials(error.into()))?
            .map_err(|error| with_hint(error, exec))?;
        Ok(Self {
            service: Mutex::new(service),
            host,
            plugin,
            compresses,
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
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, BoxError> {
        if !self.compresses {
            request.headers_mut().remove(ACCEPT_ENCODING);
        }
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

/// Names the program of an exec plugin that is not there, and says how to come by it.
fn with_hint(error: ClientError, exec: Option<ExecConfig>) -> ClientError {
    let ClientError::Credentials(error) = error else {
        return error;
    };
    ClientError::Credentials(match (error.downcast_ref(), exec) {
        (Some(kube_client::Error::Auth(AuthError::AuthExecStart(error))), Some(exec)) => {
            let hint = exec.install_hint.map(|hint| format!("; {hint}"));
            let (command, hint) = (exec.command.unwrap_or_default(), hint.unwrap_or_default());
            format!("exec plugin {command}: {error}{hint}").into()
        }
        _ => error,
    })
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

fn authority(url: &Uri) -> String {
    url.authority()
        .map_or_else(String::new, ToString::to_string)
}

type Sender = BoxCloneService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

fn connect(settings: &Settings) -> Result<Sender, ClientError> {
    let Settings { config, proxy, .. } = settings;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(config.connect_timeout);
    http.set_keepalive(Some(ASK_AFTER));
    http.set_tcp_user_timeout(Some(ASK_AFTER + ANSWER_WITHIN));
    let tls = config.rustls_client_config().map_err(credentials)?;
    let https = || HttpsConnectorBuilder::new().with_tls_config(tls.clone());
    let Some(proxy) = proxy else {
        return secure(config, https(), http);
    };
    let url = proxy.uri().clone();
    match url.scheme_str() {
        Some("socks5" | "socks5h") => {
            let mut socks = SocksV5::new(url, http);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            secure(config, https(), socks)
        }
        Some("https") => {
            let to_proxy = https().https_only().enable_http1().wrap_connector(http);
            secure(config, https(), tunnel(proxy, to_proxy))
        }
        _ => secure(config, https(), tunnel(proxy, http)),
    }
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

fn credentials(error: kube_client::Error) -> ClientError {
    ClientError::Credentials(error.into())
}

fn secure<C>(
    config: &Config,
    https: HttpsConnectorBuilder<WantsSchemes>,
    connector: C,
) -> Result<Sender, ClientError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut builder = https.https_or_http();
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

/// A file, as it was before it was read: no change is missed.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    path: PathBuf,
    key: Option<FileKey>,
}

impl Seen {
    pub(super) fn now(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let key = key(&path);
        Self { path, key }
    }

    /// A file that is gone for a moment is no better than what was read of it.
    fn changed(&self) -> bool {
        key(&self.path).is_some_and(|now| Some(now) != self.key)
    }
}

fn key(path: &Path) -> Option<FileKey> {
    fs::metadata(path)
        .ok()
        .map(|metadata| FileKey::new(&metadata))
}

/// The files a link was made of.
#[derive(Debug)]
struct Files {
    all: Vec<Seen>,
    looked: Mutex<Instant>,
}

impl Files {
    fn of(options: &ConnectionOptions) -> Self {
        Self {
            all: options.kubeconfig.iter().map(Seen::now).collect(),
            looked: Mutex::new(Instant::now()),
        }
    }

    /// And those that they name.
    fn and(mut self, named: Vec<Seen>) -> Self {
        self.all.extend(named);
        self
    }

    fn changed(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.elapsed() < LOOK {
            return false;
        }
        *looked = Instant::now();
        self.all.iter().any(Seen::changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kubelet may replace a token while it is being read.
    #[test]
    fn a_change_since_a_file_was_read_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (kubeconfig, token) = (
            folder.path().join("kubeconfig"),
            folder.path().join("token"),
        );
        fs::write(&token, "old").unwrap();
        let text = r#"{"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
            "users": [{"name": "u", "user": {"tokenFile": "token"}}], "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}"#;
        fs::write(&kubeconfig, text).unwrap();
        let options = ConnectionOptions {
            kubeconfig: Some(kubeconfig),
            ..ConnectionOptions::default()
        };
        let files = Files::of(&options);
        let settings = Settings::load(&options).unwrap();
        fs::write(&token, "another").unwrap();
        let files = files.and(settings.files);
        assert!(!files.changed(), "looked at some time later");
        *files.looked.lock().unwrap() = Instant::now().checked_sub(LOOK).unwrap();
        assert!(files.changed());
    }
}
