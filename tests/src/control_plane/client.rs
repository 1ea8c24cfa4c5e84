//! Requests to the API server, through `curl`: one process and one connection for a list of them.

use core::fmt::Write as _;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, Result, ensure};
use netns_lab::{Namespace, NamespaceRef};
use serde_json::Value as Json;

use super::SERVER;

/// Names an object of the kinds that the proxies read, and Namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Kind, as manifests spell it.
    pub kind: String,
    /// Empty for what has no namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// HTTP methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Create.
    Post,
    /// Replace.
    Put,
    /// Delete.
    Delete,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path on the server.
    pub path: String,
    /// What is sent.
    pub body: Option<Json>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// HTTP status.
    pub code: u16,
    /// What was sent.
    pub body: String,
}

/// See the module.
#[derive(Debug)]
pub struct Client {
    namespace: NamespaceRef,
    folder: PathBuf,
    token: String,
    /// Answers of one list of requests at a time are in the folder.
    turn: Mutex<()>,
}

impl Key {
    /// That of a manifest.
    ///
    /// # Errors
    /// When it has no kind or name.
    pub fn of(object: &Json) -> Result<Self> {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let key = Self {
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        };
        ensure!(
            !key.kind.is_empty() && !key.name.is_empty(),
            "no kind or name: {object}"
        );
        Ok(key)
    }

    /// Path of all objects of its kind and namespace.
    ///
    /// # Errors
    /// When the kind is none of those known.
    pub fn collection(&self) -> Result<String> {
        let (api, resource) = resource(&self.kind)
            .with_context(|| format!("what is the path of kind {}?", self.kind))?;
        Ok(match self.namespace.as_str() {
            "" => format!("{api}/{resource}"),
            namespace => format!("{api}/namespaces/{namespace}/{resource}"),
        })
    }

    /// Its path.
    ///
    /// # Errors
    /// As [`Key::collection`].
    pub fn path(&self) -> Result<String> {
        Ok(format!("{}/{}", self.collection()?, self.name))
    }
}

/// API prefix and plural of a kind.
pub(super) fn resource(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "Service" => ("/api/v1", "services"),
        "Node" => ("/api/v1", "nodes"),
        "Namespace" => ("/api/v1", "namespaces"),
        "EndpointSlice" => ("/apis/discovery.k8s.io/v1", "endpointslices"),
        "ServiceCIDR" => ("/apis/networking.k8s.io/v1", "servicecidrs"),
        _ => return None,
    })
}

impl Request {
    /// A request without a body.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            body: None,
        }
    }

    /// Adds what is sent.
    #[must_use]
    pub fn with(mut self, body: Json) -> Self {
        self.body = Some(body);
        self
    }
}

impl Response {
    /// Whether it was done.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self.code, 200..=299)
    }

    /// The server's own words about a refusal.
    #[must_use]
    pub fn message(&self) -> String {
        let parsed: Option<Json> = serde_json::from_str(&self.body).ok();
        let message = parsed.and_then(|status| Some(status["message"].as_str()?.to_owned()));
        format!(
            "{}: {}",
            self.code,
            message.unwrap_or_else(|| self.body.clone())
        )
    }
}

impl Client {
    pub(super) fn new(namespace: &Namespace, folder: &Path, token: &str) -> Result<Self> {
        let folder = folder.join("requests");
        fs::create_dir(&folder)?;
        Ok(Self {
            namespace: namespace.handle(),
            folder,
            token: token.to_owned(),
            turn: Mutex::new(()),
        })
    }

    /// Reads a path.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn get(&self, path: &str) -> Result<Response> {
        self.send_one(&Request::new(Method::Get, path))
    }

    /// Sends one request.
    ///
    /// # Errors
    /// When the server cannot be reached; a refusal is a response.
    pub fn send_one(&self, request: &Request) -> Result<Response> {
        let mut responses = self.send(core::slice::from_ref(request))?;
        responses.pop().context("no response")
    }

    /// Sends requests one after the other.
    ///
    /// # Errors
    /// When the server cannot be reached; a refusal is a response.
    pub fn send(&self, requests: &[Request]) -> Result<Vec<Response>> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut config = String::new();
        for (number, request) in requests.iter().enumerate() {
            self.describe(number, request, &mut config)?;
        }
        let codes = self.curl(config)?;
        ensure!(
            codes.len() == requests.len(),
            "{} answers to {} requests",
            codes.len(),
            requests.len()
        );
        let mut responses = Vec::with_capacity(codes.len());
        for (number, code) in codes.into_iter().enumerate() {
            // A response without a body leaves no file.
            let body = fs::read_to_string(self.file(number, "out")).unwrap_or_default();
            responses.push(Response { code, body });
        }
        Ok(responses)
    }

    fn describe(&self, number: usize, request: &Request, config: &mut String) -> Result<()> {
        if number > 0 {
            config.push_str("next\n");
        }
        let method = match request.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        };
        let output = self.file(number, "out");
        let _ = fs::remove_file(&output);
        writeln!(
            config,
            "url = \"https://{SERVER}{}\"\nrequest = {method}",
            request.path
        )?;
        writeln!(config, "header = \"Authorization: Bearer {}\"", self.token)?;
        // The server signs its own certificate, and nobody else is in its namespace.
        writeln!(
            config,
            "insecure\nsilent\nshow-error\noutput = \"{}\"",
            output.display()
        )?;
        writeln!(config, "write-out = \"%{{http_code}}\\n\"")?;
        writeln!(config, "connect-timeout = 10\nmax-time = 60")?;
        if let Some(body) = &request.body {
            let input = self.file(number, "in");
            fs::write(&input, body.to_string())?;
            writeln!(config, "header = \"Content-Type: application/json\"")?;
            writeln!(config, "data-binary = \"@{}\"", input.display())?;
        }
        Ok(())
    }

    /// HTTP codes of the transfers that `config` describes.
    fn curl(&self, config: String) -> Result<Vec<u16>> {
        let namespace = self.namespace.clone();
        let output = std::thread::spawn(move || -> Result<_> {
            namespace.enter()?;
            let mut child = Command::new("curl")
                .args(["--config", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .context("start curl")?;
            child
                .stdin
                .take()
                .context("curl has no input")?
                .write_all(config.as_bytes())?;
            Ok(child.wait_with_output()?)
        })
        .join()
        .map_err(|_| anyhow::anyhow!("the thread that runs curl panicked"))??;
        ensure!(
            output.status.success(),
            "curl: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let codes = String::from_utf8(output.stdout)?;
        codes.lines().map(|code| Ok(code.parse()?)).collect()
    }

    fn file(&self, number: usize, kind: &str) -> PathBuf {
        self.folder.join(format!("{number}.{kind}"))
    }
}
