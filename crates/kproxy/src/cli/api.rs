//! How to reach the API server.

use std::path::PathBuf;

use clap::Args;

use crate::apiserver::{ConnectionOptions, PROTOBUF};

/// For `--source api`; named as kube-proxy names them.
#[derive(Debug, Args)]
#[command(next_help_heading = "API server")]
pub(super) struct ApiOptions {
    /// How to reach the API server, and as whom; without it and --master, as the Pod that this runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// URL of the API server, instead of the one in the kubeconfig
    #[arg(long, value_name = "URL")]
    master: Option<String>,

    /// How objects are to be encoded; a server that cannot answers in JSON
    #[arg(long, value_name = "TYPE", default_value = PROTOBUF)]
    kube_api_content_type: String,

    /// Requests a second in the long run; negative: no limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5.0,
        allow_negative_numbers = true
    )]
    kube_api_qps: f32,

    /// Requests at once
    #[arg(long, value_name = "N", default_value_t = 10)]
    kube_api_burst: i32,
}

impl ApiOptions {
    /// The same for the library.
    pub(super) fn connection(&self) -> ConnectionOptions {
        ConnectionOptions {
            kubeconfig: self.kubeconfig.clone(),
            master: self.master.clone(),
            content_type: self.kube_api_content_type.clone(),
            qps: self.kube_api_qps,
            burst: self.kube_api_burst,
            ..ConnectionOptions::default()
        }
    }
}
