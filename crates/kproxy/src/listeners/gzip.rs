//! Long answers, compressed for clients that ask for it: kube-proxy does so with its metrics, and every
//! Prometheus asks.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, VARY};

/// Shorter ones go into one packet as they are.
const SHORTEST: usize = 1024;

/// An answer as it is sent.
pub(super) fn packed(response: Response<String>, is_wanted: bool) -> Response<Bytes> {
    let (mut head, body) = response.into_parts();
    if body.len() < SHORTEST {
        return Response::from_parts(head, body.into());
    }
    head.headers
        .insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    let packed = is_wanted.then(|| gzip(body.as_bytes())).flatten();
    let Some(packed) = packed else {
        return Response::from_parts(head, body.into());
    };
    head.headers
        .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(head, packed.into())
}

fn gzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

/// Whether a client takes gzip.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = |part: &str| {
                let weight = part.strip_prefix("q=").map(str::parse::<f32>);
                weight.is_some_and(|weight| weight.is_ok_and(|weight| weight <= 0.0))
            };
            is_gzip && !parts.any(refused)
        })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn long_answers_are_packed_for_who_asks() {
        let long = "kproxy_services 1\n".repeat(100);
        let answer = packed(Response::new(long.clone()), true);
        assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
        assert!(answer.body().len() < long.len() / 10);
        let mut text = String::new();
        let read = GzDecoder::new(&**answer.body()).read_to_string(&mut text);
        assert_eq!((read.unwrap(), text == long), (long.len(), true));

        for (text, is_wanted) in [(long, false), ("ok".to_owned(), true)] {
            let answer = packed(Response::new(text.clone()), is_wanted);
            assert!(!answer.headers().contains_key(CONTENT_ENCODING));
            assert_eq!(answer.body(), text.as_bytes());
        }
    }

    #[test]
    fn who_asks() {
        for (header, expected) in [
            ("gzip", true),
            ("zstd, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("identity", false),
            ("x-gzip-not", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(header));
            assert_eq!(is_wanted(&headers), expected, "{header}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
