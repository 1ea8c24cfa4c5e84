//! kube-proxy's command line: what it says, what it means together with a file, and what of it is to be
//! warned about (cmd/kube-proxy/app/options.go of 1.37).

mod csv;
mod table;
mod value;

pub use table::{FLAGS, Flag, Target};
pub use value::FlagKind;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use thiserror::Error;

use super::defaults::{HEALTHZ_PORT, METRICS_PORT};
use super::{
    DecodeError, GoDuration, Invalid, KubeProxyConfiguration, LoggingError, Mode, Standing,
    Strictness, address, decode, warnings,
};
use crate::yaml;

/// Flags that were given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given(Vec<(&'static Flag, Value)>);

/// A flag's value that cannot be read; pflag's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid argument {text:?} for \"{}\" flag: {why}", shown(flag))]
pub struct FlagError {
    /// Which.
    pub flag: String,
    /// What was given.
    pub text: String,
    /// Why not.
    pub why: String,
}

/// As pflag calls it.
fn shown(flag: &str) -> String {
    match flag {
        "v" => "-v, --v".to_owned(),
        "help" => "-h, --help".to_owned(),
        flag => format!("--{flag}"),
    }
}

/// What flags and file say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Complete {
    /// Checked, with defaults.
    pub config: KubeProxyConfiguration,
    /// What is to be warned about.
    pub warnings: Vec<String>,
}

/// Why they say nothing that could be done.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file.
    #[error("failed complete: {}: {error}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Its text.
    #[error("failed complete: {}: failed to decode: {error}", file.display())]
    Decode {
        /// Which.
        file: PathBuf,
        /// Why not.
        error: DecodeError,
    },
    /// Unknown or repeated fields, where these are not to be passed over.
    #[error("failed complete: {}: {error}", file.display())]
    Strict {
        /// Which.
        file: PathBuf,
        /// Which fields.
        error: Strictness,
    },
    /// `--hostname-override` of spaces.
    #[error("failed complete: empty hostname-override is invalid")]
    EmptyHostname,
    /// `logging`.
    #[error("initialize logging: {0}")]
    Logging(#[from] LoggingError),
    /// Any other value.
    #[error("failed validate: {0}")]
    Invalid(#[from] Invalid),
    /// Flags do not fit into the configuration.
    #[error("failed complete: {0}")]
    Flags(#[from] serde_json::Error),
}

impl Given {
    /// Notes a flag; a second one of a name adds to lists and maps, and else replaces the first.
    ///
    /// # Errors
    /// [`FlagError`].
    pub fn add(&mut self, flag: &'static Flag, text: &str) -> Result<(), FlagError> {
        // kube-proxy takes it, and leaves the address as it was.
        if flag.kind == FlagKind::Ip && text.is_empty() {
            return Ok(());
        }
        let value = flag.kind.read(text).map_err(|why| FlagError {
            flag: flag.name.to_owned(),
            text: text.to_owned(),
            why,
        })?;
        let before = self.0.iter().position(|(it, _)| it.name == flag.name);
        let before = before.map(|index| self.0.remove(index).1);
        self.0.push((flag, flag.kind.append(before, value)));
        Ok(())
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let mut given = self.0.iter();
        given
            .find(|(flag, _)| flag.name == name)
            .map(|(_, value)| value)
    }

    /// A flag's text, unless it is empty.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Is a flag given, and true?
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Bool(true))
    }

    /// The file, if one was named.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.text("config").map(Path::new)
    }

    /// What flags and file say together; `strict` refuses unknown and repeated fields.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn complete(&self, strict: bool) -> Result<Complete, ConfigError> {
        let mut found = self.warnings();
        let mut config = match self.file() {
            Some(file) => self.with_file(file, strict, &mut found)?,
            None => self.alone()?,
        };
        config.settle();
        if let Some(name) = self.text("hostname-override") {
            let name = name.trim();
            if name.is_empty() {
                return Err(ConfigError::EmptyHostname);
            }
            config.hostname_override = name.to_lowercase();
        }
        let gates = &config.feature_gates;
        let never = self.value("log-flush-frequency").and_then(Value::as_str) == Some("0s");
        config.logging.validate(never, |gate| gates.is_on(gate))?;
        config.validate()?;
        Ok(Complete {
            config,
            warnings: found,
        })
    }

    /// Warnings about flags that do not do what they say.
    fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (flag, value) in &self.0 {
            let name = flag.name;
            if let Target::Port { address } = flag.target {
                let address = address.trim_end_matches("BindAddress");
                found.push(format!(
                    "flag --{name} is deprecated: use --{address}-bind-address instead"
                ));
            }
            if self.file().is_some() && !flag.counts_with_file() {
                found.push(format!(
                    "flag --{name} does not count beside --config: the file says everything"
                ));
            } else if let Standing::Accepted(instead) = flag.standing()
                && !warnings::says_nothing(value)
            {
                found.push(format!("flag --{name} changes nothing: {instead}"));
            }
        }
        found
    }

    /// The file's configuration, and what flags count beside it.
    fn with_file(
        &self,
        file: &Path,
        strict: bool,
        found: &mut Vec<String>,
    ) -> Result<KubeProxyConfiguration, ConfigError> {
        let text = std::fs::read(file).and_then(|bytes| {
            let text = yaml::text(bytes);
            text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        });
        let text = text.map_err(|error| ConfigError::Read {
            file: file.to_owned(),
            error,
        })?;
        let decoded = decode(&text).map_err(|error| ConfigError::Decode {
            file: file.to_owned(),
            error,
        })?;
        if let Some(error) = decoded.strictness {
            if strict {
                return Err(ConfigError::Strict {
                    file: file.to_owned(),
                    error,
                });
            }
            found.push(format!(
                "{}: using lenient decoding as strict decoding failed: {error}",
                file.display()
            ));
        }
        let mut config = decoded.config;
        found.extend(warnings::of(&decoded.said, &config));
        config.set_defaults();
        self.logging(&mut config)?;
        Ok(config)
    }

    /// Flags of logging win over the file; patterns of theirs come first.
    fn logging(&self, config: &mut KubeProxyConfiguration) -> Result<(), ConfigError> {
        let file = core::mem::take(&mut config.logging.vmodule);
        config.logging.options.json.split_stream = false;
        config.logging.options.text.split_stream = false;
        let mut object = serde_json::to_value(&*config)?;
        for (flag, value) in &self.0 {
            if let Target::Field(path) = flag.target
                && path.starts_with("logging.")
            {
                put(&mut object, path, value.clone());
            }
        }
        *config = serde_json::from_value(object)?;
        config.logging.vmodule.extend(file);
        Ok(())
    }

    /// The configuration that flags alone describe.
    fn alone(&self) -> Result<KubeProxyConfiguration, ConfigError> {
        let mut base = KubeProxyConfiguration::default();
        base.set_defaults();
        let mut object = serde_json::to_value(base)?;
        for (flag, value) in &self.0 {
            if let Target::Field(path) = flag.target {
                put(&mut object, path, value.clone());
            }
        }
        let mut config: KubeProxyConfiguration = serde_json::from_value(object)?;
        self.of_mode(&mut config);
        if self.text("write-config-to").is_none() {
            let healthz = self.port("healthz-port", HEALTHZ_PORT);
            listener(&mut config.healthz_bind_address, healthz);
            let metrics = self.port("metrics-port", METRICS_PORT);
            listener(&mut config.metrics_bind_address, metrics);
        }
        Ok(config)
    }

    /// Flags that mean another field in each mode.
    fn of_mode(&self, config: &mut KubeProxyConfiguration) {
        let mode = config.effective_mode();
        let all = self.is_on("masquerade-all");
        let time = |name: &str, default: u32| {
            let text = self.text(name).and_then(|text| text.parse().ok());
            text.unwrap_or_else(|| GoDuration::from_secs(default))
        };
        let prefix = if mode == Mode::Ipvs {
            "ipvs"
        } else {
            "iptables"
        };
        let sync = time(&format!("{prefix}-sync-period"), 30);
        let min_sync = time(&format!("{prefix}-min-sync-period"), 1);
        match mode {
            Mode::Iptables => {
                config.iptables.masquerade_all = all;
                config.iptables.sync_period = sync;
                config.iptables.min_sync_period = min_sync;
            }
            Mode::Ipvs => {
                config.iptables.masquerade_all = all;
                config.ipvs.sync_period = sync;
                config.ipvs.min_sync_period = min_sync;
            }
            Mode::Nftables => {
                config.nftables.masquerade_all = all;
                config.nftables.sync_period = sync;
                config.nftables.min_sync_period = min_sync;
            }
        }
    }

    fn port(&self, name: &str, default: u16) -> i64 {
        let given = self.value(name).and_then(Value::as_i64);
        given.unwrap_or_else(|| default.into())
    }
}

/// Port 0 is nowhere; any other is that of an address without one.
fn listener(text: &mut String, port: i64) {
    match u16::try_from(port) {
        Ok(0) => text.clear(),
        Ok(port) => *text = address::with_port(text, port),
        // Left as it is, and refused for want of a port.
        Err(_) => {}
    }
}

/// Puts a value at a path of objects.
fn put(object: &mut Value, path: &str, value: Value) {
    let mut here = object;
    for name in path.split('.') {
        if !here.is_object() {
            *here = Value::Object(Map::new());
        }
        here = &mut here[name];
    }
    *here = value;
}

#[cfg(test)]
mod tests;
