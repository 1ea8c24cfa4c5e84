//! What a kubeconfig, `--master` and the environment say, taken as client-go takes it
//! (client-go/tools/clientcmd: `DirectClientConfig`; client-go/rest: `InClusterConfig`): kube-client has
//! the types, but resolves them otherwise, and does not take everything that kube-proxy starts with.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use hyper::Uri;
use hyper_util::client::proxy::matcher::Intercept;
use kube_client::Config;
use kube_client::config::{
    AuthInfo, Cluster, Context, ExecAuthCluster, ExecInteractiveMode, Kubeconfig,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::Value;

use super::error::BoxError;
use super::link::Seen;
use super::{ClientError, ConnectionOptions, proxy};

/// Where a Pod finds its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How to reach the server, and as whom.
pub(super) struct Settings {
    /// Without a proxy, which is the next.
    pub(super) config: Config,
    pub(super) proxy: Option<Intercept>,
    /// What it was read from, but for the kubeconfig itself, as it was before that.
    pub(super) files: Vec<Seen>,
}

impl ConnectionOptions {
    /// Whether there is a configuration that can be read; connects to nothing, runs nothing.
    ///
    /// # Errors
    /// [`ClientError`]: of the kubeconfig and what it names, of `master`, or for want of a Pod's
    /// environment.
    pub fn check(&self) -> Result<(), ClientError> {
        Settings::load(self).map(|_| ())
    }
}

impl Settings {
    /// Reads everything; runs no exec plugin.
    pub(super) fn load(options: &ConnectionOptions) -> Result<Self, ClientError> {
        let master = options.master.as_deref();
        let target = match (&options.kubeconfig, master) {
            (Some(path), _) => {
                let target = Target::of_kubeconfig(path, master);
                let target = target.map_err(|error| match error {
                    TargetError::Master(error) => error,
                    TargetError::Other(error) => ClientError::Kubeconfig {
                        path: path.clone(),
                        error,
                    },
                })?;
                match target {
                    Some(target) => target,
                    // So says client-go, too: one that is empty is none.
                    None if in_a_pod() => Target::of_pod()?,
                    None => {
                        return Err(ClientError::Kubeconfig {
                            path: path.clone(),
                            error: "nothing in it says where the server is".into(),
                        });
                    }
                }
            }
            (None, Some(url)) => Target {
                server: server(url).map_err(|error| master_error(url, error))?,
                cluster: Cluster::default(),
                auth: AuthInfo::default(),
            },
            (None, None) => Target::of_pod()?,
        };
        target.settings()
    }
}

/// What the current context comes down to.
struct Target {
    server: Uri,
    cluster: Cluster,
    auth: AuthInfo,
}

enum TargetError {
    Master(ClientError),
    Other(BoxError),
}

impl<E: Into<BoxError>> From<E> for TargetError {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

fn master_error(url: &str, error: BoxError) -> ClientError {
    ClientError::Master {
        url: proxy::without_password(url),
        error,
    }
}

impl Target {
    /// `None` if there is neither a context with a cluster nor a master.
    fn of_kubeconfig(path: &Path, master: Option<&str>) -> Result<Option<Self>, TargetError> {
        let config = read(path)?;
        let context = match config.current_context.filter(|name| !name.is_empty()) {
            Some(name) => config
                .contexts
                .into_iter()
                .find(|it| it.name == name)
                .ok_or_else(|| format!("there is no context {name:?}"))?
                .context
                .unwrap_or_default(),
            None => Context::default(),
        };
        let name = context.cluster;
        let cluster = config.clusters.into_iter().find(|it| it.name == name);
        let is_there = cluster.is_some();
        let mut cluster = cluster.and_then(|it| it.cluster).unwrap_or_default();
        if master.is_some() {
            // The name is that of another server.
            cluster.tls_server_name = None;
        }
        let url = match (master, cluster.server.as_deref()) {
            (Some(url), _) | (None, Some(url)) => url.to_owned(),
            (None, None) if is_there => {
                return Err(format!("cluster {name:?} has no server").into());
            }
            (None, None) => return Ok(None),
        };
        let server = server(&url).map_err(|error| match master {
            Some(url) => TargetError::Master(master_error(url, error)),
            None => {
                let shown = proxy::without_password(&url);
                TargetError::Other(format!("server {shown:?}: {error}").into())
            }
        })?;
        // Of the address that is used, for exec plugins.
        cluster.server = Some(url);
        // A user that does not exist is nobody, in client-go as well.
        let user = context.user.unwrap_or_default();
        let user = config.auth_infos.into_iter().find(|it| it.name == user);
        Ok(Some(Self {
            server,
            cluster,
            auth: user.and_then(|it| it.auth_info).unwrap_or_default(),
        }))
    }

    /// The server that the environment of a Pod names, as the Pod's service account.
    fn of_pod() -> Result<Self, ClientError> {
        let failed = |error: BoxError| ClientError::NotInCluster(error);
        let [host, port] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(variable);
        let (Some(host), Some(port)) = (host, port) else {
            return Err(failed(
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set".into(),
            ));
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let url = format!("https://{host}:{port}");
        let authority = format!("{ACCOUNT}/ca.crt");
        let mut cluster = Cluster {
            server: Some(url.clone()),
            ..Cluster::default()
        };
        match fs::metadata(&authority) {
            Ok(_) => cluster.certificate_authority = Some(authority),
            Err(error) => tracing::error!(
                "{authority}: {error}; the server's certificate is checked by the system's authorities"
            ),
        }
        Ok(Self {
            server: server(&url).map_err(|error| failed(format!("{url}: {error}").into()))?,
            cluster,
            auth: AuthInfo {
                token_file: Some(format!("{ACCOUNT}/token")),
                ..AuthInfo::default()
            },
        })
    }

    fn settings(self) -> Result<Settings, ClientError> {
        let Self {
            server,
            cluster,
            auth,
        } = self;
        let is_secure = server.scheme_str() == Some("https");
        let (server, said) = without_user(&server).map_err(|error| {
            ClientError::Credentials(format!("the server's URL: {error}").into())
        })?;
        let mut config = Config::new(server);
        config.connect_timeout = Some(super::link::CONNECT);
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
        config.disable_compression = cluster.disable_compression.unwrap_or_default();
        config.tls_server_name.clone_from(&cluster.tls_server_name);
        let mut files = Vec::new();
        if is_secure && cluster.certificate_authority_data.is_none() {
            files.extend(cluster.certificate_authority.as_ref().map(Seen::now));
        }
        let failed = |error: BoxError| ClientError::Credentials(error);
        // Reads the authority.
        let told = ExecAuthCluster::try_from(&cluster).map_err(|error| failed(error.into()))?;
        if is_secure {
            if let Some(pem) = &told.certificate_authority_data {
                config.root_cert = Some(certificates(pem).map_err(failed)?);
            }
            config.auth_info = as_whom(auth, said, told, &mut files).map_err(failed)?;
        } else if is_anybody(&auth) {
            // Nor does client-go tell them to everybody on the way.
            tracing::warn!("{}: credentials are not sent over http", config.cluster_url);
        }
        let proxy = proxy::of(&config.cluster_url, cluster.proxy_url.as_deref())?;
        Ok(Settings {
            config,
            proxy,
            files,
        })
    }
}

fn in_a_pod() -> bool {
    variable("KUBERNETES_SERVICE_HOST").is_some()
        && variable("KUBERNETES_SERVICE_PORT").is_some()
        && fs::metadata(format!("{ACCOUNT}/token")).is_ok()
}

/// What the environment says, unless it is empty.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The URL of a server: as for client-go, a host alone is HTTP.
fn server(url: &str) -> Result<Uri, BoxError> {
    let full = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let parsed: Uri = full.parse()?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(parsed),
        (Some("http" | "https"), _) => Err("no host".into()),
        _ => Err("neither http:// nor https://".into()),
    }
}

/// A URL without the user in it, who is told in a header.
fn without_user(url: &Uri) -> Result<(Uri, Option<(String, String)>), BoxError> {
    let Some((user, host)) = url
        .authority()
        .and_then(|authority| authority.as_str().rsplit_once('@'))
    else {
        return Ok((url.clone(), None));
    };
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let mut parts = url.clone().into_parts();
    parts.authority = Some(host.parse()?);
    let plain = Uri::from_parts(parts)?;
    Ok((plain, Some((name.to_owned(), password.to_owned()))))
}

/// Reads a kubeconfig. Null is as good as absent, and so is an empty text where a cluster or a user is
/// described; paths are relative to the file.
fn read(path: &Path) -> Result<Kubeconfig, BoxError> {
    let text = fs::read_to_string(path)?;
    let mut tree: Value = if text.trim().is_empty() {
        Value::Null
    } else {
        serde_saphyr::from_str(&text).map_err(|error| error.without_snippet().to_string())?
    };
    if tree.is_null() {
        return Ok(Kubeconfig::default());
    }
    without_nulls(&mut tree);
    for (list, entry) in [("clusters", "cluster"), ("users", "user")] {
        for described in entries(&mut tree, list, entry) {
            described.retain(|_, value| value.as_str() != Some(""));
        }
    }
    for context in entries(&mut tree, "contexts", "context") {
        context.entry("cluster").or_insert("".into());
    }
    let mut config: Kubeconfig =
        serde_json::from_value(tree).map_err(|error| without_value(&error))?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let clusters = config.clusters.iter_mut();
    for cluster in clusters.filter_map(|it| it.cluster.as_mut()) {
        resolve(folder, &mut cluster.certificate_authority);
    }
    let users = config.auth_infos.iter_mut();
    for auth in users.filter_map(|it| it.auth_info.as_mut()) {
        resolve(folder, &mut auth.client_certificate);
        resolve(folder, &mut auth.client_key);
        resolve(folder, &mut auth.token_file);
        // A bare name is looked for in PATH.
        let command = auth.exec.as_mut().map(|exec| &mut exec.command);
        if let Some(command) = command.filter(|it| it.as_ref().is_some_and(|it| it.contains('/'))) {
            resolve(folder, command);
        }
    }
    Ok(config)
}

/// What is wrong, without the value that is: a password of digits and no quotes is one, too.
fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let parts = text.split_once(": ").zip(text.rsplit_once(", expected "));
    match parts {
        Some(((what, _), (_, expected))) => format!("{what}, expected {expected}"),
        None => text,
    }
}

fn without_nulls(tree: &mut Value) {
    match tree {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// What the entries of a list describe: `list[].entry`.
fn entries<'t>(
    tree: &'t mut Value,
    list: &str,
    entry: &'t str,
) -> impl Iterator<Item = &'t mut serde_json::Map<String, Value>> {
    let list = tree.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter()
        .flatten()
        .filter_map(move |named| named.get_mut(entry)?.as_object_mut())
}

fn resolve(folder: &Path, file: &mut Option<String>) {
    if let Some(path) = file {
        *path = folder.join(&*path).to_string_lossy().into_owned();
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, BoxError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| format!("certificate authority: {error}"))?;
    if read.is_empty() {
        return Err("certificate authority: no certificate in it".into());
    }
    Ok(read.iter().map(|it| it.to_vec()).collect())
}

fn is_anybody(auth: &AuthInfo) -> bool {
    auth.token.is_some()
        || auth.token_file.is_some()
        || auth.username.is_some()
        || auth.exec.is_some()
        || auth.auth_provider.is_some()
        || auth.impersonate.is_some()
}

/// The credentials that count, tokens read from their files.
fn as_whom(
    mut auth: AuthInfo,
    said: Option<(String, String)>,
    cluster: ExecAuthCluster,
    files: &mut Vec<Seen>,
) -> Result<AuthInfo, BoxError> {
    let certificates = [&auth.client_certificate, &auth.client_key];
    files.extend(certificates.into_iter().flatten().map(Seen::now));
    // What the file says counts more than what is written down beside it, as long as it can be read.
    if let Some(file) = auth.token_file.take() {
        let path = PathBuf::from(file);
        files.push(Seen::now(&path));
        match token(&path) {
            Ok(token) => auth.token = Some(token.into()),
            Err(error) if auth.token.is_none() => return Err(error),
            Err(error) => tracing::warn!("{error}; the token of the kubeconfig is used"),
        }
    }
    if auth.username.is_some() && auth.token.is_some() {
        return Err("both a token and a user name are given; only one of them can count".into());
    }
    let has_certificate =
        auth.client_certificate.is_some() || auth.client_certificate_data.is_some();
    if auth.username.is_some() || auth.token.is_some() || has_certificate {
        // Not needed, then (client-go/plugin/pkg/client/auth/exec: `UpdateTransportConfig`).
        auth.exec = None;
    } else if let Some((user, password)) = said.filter(|_| auth.exec.is_none()) {
        auth.username = Some(user);
        auth.password = Some(password.into());
    }
    if auth.username.is_some() && auth.password.is_none() {
        auth.password = Some(String::new().into());
    }
    if let Some(exec) = &mut auth.exec {
        if !io::stdin().is_terminal() {
            if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
                return Err(
                    "the exec plugin must ask somebody (interactiveMode: Always), but standard input is \
                     no terminal"
                        .into(),
                );
            }
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        exec.cluster = exec.provide_cluster_info.then_some(cluster);
    }
    Ok(auth)
}

fn token(path: &Path) -> Result<String, BoxError> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("token file {}: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("token file {} is empty", path.display()).into()),
        token => Ok(token.to_owned()),
    }
}
