//! Tokens of service accounts.

use core::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value as Json, json};

use super::client::{Client, Method, Request};

/// A token that can be made worthless before it expires (the shortest that the API server gives
/// lasts ten minutes): it is bound to a Secret, and ends with it.
#[derive(Debug, Clone)]
pub struct Token {
    text: String,
    id: String,
    secret: String,
}

impl Token {
    pub(super) fn request(client: &Client, namespace: &str, account: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("token-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        let made = client.send_one(&Request::new(Method::Post, &*secrets).with(secret))?;
        ensure!(made.is_ok(), "make a Secret: {}", made.message());
        let made: Json = serde_json::from_str(&made.body)?;
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"boundObjectRef": {
                "apiVersion": "v1", "kind": "Secret", "name": name, "uid": made["metadata"]["uid"]
            }}
        });
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = client.send_one(&Request::new(Method::Post, path).with(request))?;
        ensure!(answer.is_ok(), "ask for a token: {}", answer.message());
        let answer: Json = serde_json::from_str(&answer.body)?;
        let text = answer["status"]["token"].as_str().context("no token")?;
        Ok(Self {
            text: text.to_owned(),
            id: id_of(text)?,
            secret: format!("{secrets}/{name}"),
        })
    }

    /// What a client sends.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the record of requests calls it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn revoke(&self, client: &Client) -> Result<()> {
        let gone = client.send_one(&Request::new(Method::Delete, &*self.secret))?;
        ensure!(gone.is_ok(), "delete a Secret: {}", gone.message());
        Ok(())
    }
}

/// The claim `jti` of a JSON web token (RFC 7519): its second part, base64url without padding.
fn id_of(token: &str) -> Result<String> {
    let claims = token.split('.').nth(1).context("not a JSON web token")?;
    let claims: Json = serde_json::from_slice(&base64url(claims)?)?;
    let id = claims["jti"].as_str().context("a token without an id")?;
    Ok(format!("JTI={id}"))
}

/// RFC 4648, section 5.
fn base64url(text: &str) -> Result<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let value = ALPHABET.iter().position(|letter| *letter == byte);
        let value = value.with_context(|| format!("{:?} in base64", char::from(byte)))?;
        bits = (bits << 6) | u32::try_from(value)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff)?);
            bits &= (1 << count) - 1;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_read() {
        // {"jti":"a-b"}
        assert_eq!(id_of("x.eyJqdGkiOiJhLWIifQ.y").unwrap(), "JTI=a-b");
        assert!(id_of("nonsense").is_err());
    }
}
