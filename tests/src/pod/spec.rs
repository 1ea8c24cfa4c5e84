//! What a DaemonSet says about its pods.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value as Json;

use super::{probe::HttpProbe, sandbox::Security};

/// The pod of a DaemonSet.
#[derive(Debug, Clone)]
pub struct PodSpec {
    /// Containers that end before the main one starts.
    pub init: Vec<Container>,
    /// The only container that stays.
    pub main: Container,
    /// Name of the service account.
    pub service_account: String,
    pub(super) volumes: BTreeMap<String, Volume>,
    is_node_critical: bool,
}

/// A container.
#[derive(Debug, Clone)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Whether it should be sent traffic.
    pub readiness: Option<HttpProbe>,
    /// Whether it should be started anew.
    pub liveness: Option<HttpProbe>,
    /// Whether it has started.
    pub startup: Option<HttpProbe>,
    pub(super) security: Security,
    /// Volume, path, whether it cannot be written there.
    pub(super) mounts: Vec<(String, PathBuf, bool)>,
    /// Variables that hold the node's name.
    node_name: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) enum Volume {
    ConfigMap(String),
    Host { path: PathBuf, is_file: bool },
}

impl PodSpec {
    /// Reads that of a DaemonSet.
    ///
    /// # Errors
    /// When something is said that is not understood.
    pub fn of(daemon_set: &Json) -> Result<Self> {
        let spec = &daemon_set["spec"]["template"]["spec"];
        only(
            spec,
            &[
                "containers",
                "initContainers",
                "serviceAccountName",
                "volumes",
                "hostNetwork",
                "priorityClassName",
                // What decides where and for how long it runs, and defaults of the API server.
                "affinity",
                "nodeSelector",
                "tolerations",
                "restartPolicy",
                "terminationGracePeriodSeconds",
                "dnsPolicy",
                "securityContext",
                "schedulerName",
                "serviceAccount",
            ],
        )?;
        only(&spec["securityContext"], &[])?;
        ensure!(spec["hostNetwork"] == true, "not in the host's network");
        let containers = |list: &Json| {
            let list = list.as_array().into_iter().flatten();
            list.map(Container::of).collect::<Result<Vec<_>>>()
        };
        let [main] = <[_; 1]>::try_from(containers(&spec["containers"])?)
            .map_err(|them| anyhow::anyhow!("{} containers", them.len()))?;
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        let volumes = volumes.map(|volume| Ok((text(&volume["name"])?, Volume::of(volume)?)));
        Ok(Self {
            init: containers(&spec["initContainers"])?,
            main,
            service_account: text(&spec["serviceAccountName"])?,
            volumes: volumes.collect::<Result<_>>()?,
            is_node_critical: spec["priorityClassName"] == "system-node-critical",
        })
    }

    /// ConfigMaps that it mounts.
    pub fn config_maps(&self) -> impl Iterator<Item = &str> {
        self.volumes.values().filter_map(|volume| match volume {
            Volume::ConfigMap(name) => Some(&**name),
            Volume::Host { .. } => None,
        })
    }

    /// As kubelet gives it (`pkg/kubelet/qos/policy.go`).
    pub(super) const fn oom_score_adj(&self) -> i32 {
        if self.is_node_critical { -997 } else { 1000 }
    }
}

impl Container {
    fn of(container: &Json) -> Result<Self> {
        only(
            container,
            &[
                "name",
                "command",
                "securityContext",
                "volumeMounts",
                "env",
                "ports",
                "readinessProbe",
                "livenessProbe",
                "startupProbe",
                // Of the image and of logs; and what a scheduler looks at.
                "image",
                "imagePullPolicy",
                "resources",
                "terminationMessagePath",
                "terminationMessagePolicy",
            ],
        )?;
        let list = |value: &Json| value.as_array().cloned().unwrap_or_default();
        let probe = |name: &str| HttpProbe::of(&container[name], &container["ports"]);
        let mut mounts = Vec::new();
        for mount in list(&container["volumeMounts"]) {
            only(&mount, &["name", "mountPath", "readOnly"])?;
            mounts.push((
                text(&mount["name"])?,
                text(&mount["mountPath"])?.into(),
                mount["readOnly"] == true,
            ));
        }
        let mut node_name = Vec::new();
        for variable in list(&container["env"]) {
            let from = &variable["valueFrom"]["fieldRef"]["fieldPath"];
            ensure!(from == "spec.nodeName", "environment: {variable}");
            node_name.push(text(&variable["name"])?);
        }
        let command = list(&container["command"]);
        Ok(Self {
            name: text(&container["name"])?,
            command: command.iter().map(text).collect::<Result<_>>()?,
            readiness: probe("readinessProbe")?,
            liveness: probe("livenessProbe")?,
            startup: probe("startupProbe")?,
            security: Security::of(&container["securityContext"])?,
            mounts,
            node_name,
        })
    }

    pub(super) fn command_on(&self, node_name: &str) -> Result<Vec<String>> {
        let mut command = self.command.clone();
        for argument in &mut command {
            for variable in &self.node_name {
                *argument = argument.replace(&format!("$({variable})"), node_name);
            }
            ensure!(!argument.contains("$("), "no variable for {argument}");
        }
        Ok(command)
    }

    pub(super) fn environment_on(&self, node_name: &str) -> Result<BTreeMap<String, String>> {
        let own = self.node_name.iter().map(|name| (&**name, node_name));
        // Where the API server is, once somebody programs its Service.
        let [four, _] = crate::control_plane::SERVICE_CIDRS;
        let first = four.replace("0.0/16", "0.1");
        let given = [
            ("KUBERNETES_SERVICE_HOST", &*first),
            ("KUBERNETES_SERVICE_PORT", "443"),
            (
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            ),
        ];
        let all = given.into_iter().chain(own);
        Ok(all
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }
}

impl HttpProbe {
    fn of(probe: &Json, ports: &Json) -> Result<Option<Self>> {
        if probe.is_null() {
            return Ok(None);
        }
        let request = &probe["httpGet"];
        only(request, &["path", "port", "scheme"])?;
        ensure!(
            request["scheme"].is_null() || request["scheme"] == "HTTP",
            "{probe}"
        );
        let port = match &request["port"] {
            Json::Number(number) => number.as_u64(),
            name => {
                let mut ports = ports.as_array().into_iter().flatten();
                ports
                    .find(|port| port["name"] == *name)
                    .and_then(|port| port["containerPort"].as_u64())
            }
        };
        let port = port.with_context(|| format!("no such port: {probe}"))?;
        Ok(Some(Self {
            path: text(&request["path"])?,
            port: u16::try_from(port)?,
        }))
    }
}

impl Volume {
    fn of(volume: &Json) -> Result<Self> {
        only(volume, &["name", "configMap", "hostPath"])?;
        if let Json::Object(_) = &volume["configMap"] {
            only(&volume["configMap"], &["name", "defaultMode"])?;
            return Ok(Self::ConfigMap(text(&volume["configMap"]["name"])?));
        }
        let host = &volume["hostPath"];
        only(host, &["path", "type"])?;
        let path = text(&host["path"])?;
        Ok(Self::Host {
            path: Path::new(&path).to_owned(),
            is_file: host["type"] == "FileOrCreate",
        })
    }
}

/// Fails if an object has a field that is not among `known`.
pub(super) fn only(object: &Json, known: &[&str]) -> Result<()> {
    for name in object.as_object().into_iter().flat_map(|it| it.keys()) {
        if !known.contains(&&**name) {
            bail!("field {name} is not understood: {object}");
        }
    }
    Ok(())
}

fn text(value: &Json) -> Result<String> {
    Ok(value
        .as_str()
        .with_context(|| format!("no text: {value}"))?
        .to_owned())
}
