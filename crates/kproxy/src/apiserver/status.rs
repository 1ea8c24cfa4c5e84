//! `Status`, the API's word for "no".

use core::time::Duration;

use serde::Deserialize;

use super::{Refusal, protobuf};

/// Reads a body that should be a `Status`, in whatever encoding; `None` if it is something else.
pub(super) fn read(body: &[u8]) -> Option<Refusal> {
    if body.starts_with(&protobuf::MAGIC) {
        return protobuf::status(body).ok();
    }
    json(body)
        .ok()
        .filter(|refusal| refusal.code != 0)
        .or_else(|| {
            // What is in between answers in plain text.
            let text = core::str::from_utf8(body).ok()?.trim();
            let is_short = !text.is_empty() && text.len() < 200 && !text.starts_with('<');
            is_short.then(|| Refusal {
                message: text.to_owned(),
                ..Refusal::default()
            })
        })
}

/// Reads JSON.
pub(super) fn json(text: &[u8]) -> serde_json::Result<Refusal> {
    let status: Status = serde_json::from_slice(text)?;
    let seconds = status
        .details
        .and_then(|details| details.retry_after_seconds);
    Ok(Refusal {
        code: status.code.unwrap_or_default(),
        reason: status.reason.unwrap_or_default(),
        message: status.message.unwrap_or_default(),
        retry_after: seconds
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
    })
}

#[derive(Deserialize)]
struct Status {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_all_kinds() {
        let json = br#"{"kind":"Status","status":"Failure","message":"too old","reason":"Expired",
            "details":{"retryAfterSeconds":2},"code":410}"#;
        let refusal = read(json).unwrap();
        assert!(refusal.is_gone());
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(2)));
        assert_eq!(
            read(b"upstream is gone\n").unwrap().message,
            "upstream is gone"
        );
        assert_eq!(read(b"<html>"), None);
        assert_eq!(read(b""), None);
    }
}
