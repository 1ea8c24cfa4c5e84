//! `ObjectMeta` and `ListMeta`.

use super::Message;
use super::wire::{ProtobufError, Value};
use crate::api::{Labels, Metadata};

impl<'a> Message<'a> for Metadata<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.name = value.text(number)?,
            3 => self.namespace = value.text(number)?,
            5 => self.uid = value.text(number)?,
            6 => self.resource_version = value.text(number)?,
            8 => {
                let mut time = Time::default();
                value.merge(number, &mut time)?;
                self.creation_timestamp = time.text();
            }
            9 => {
                let mut time = Time::default();
                value.merge(number, &mut time)?;
                self.deletion_timestamp = time.text();
            }
            11 => {
                let mut entry = Entry::default();
                value.merge(number, &mut entry)?;
                entry.into_labels(&mut self.labels);
            }
            12 => {
                let mut entry = Entry::default();
                value.merge(number, &mut entry)?;
                match entry.key {
                    "k8s.io/initial-events-end" => {
                        self.annotations.initial_events_end = Some(entry.value.into());
                    }
                    "endpoints.kubernetes.io/last-change-trigger-time" => {
                        self.annotations.last_change_trigger_time = Some(entry.value.into());
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// An entry of a map of strings.
#[derive(Default)]
struct Entry<'a> {
    key: &'a str,
    value: &'a str,
}

impl<'a> Entry<'a> {
    /// Of some labels it matters that they are there, even empty.
    fn into_labels(self, labels: &mut Labels<'a>) {
        let label = match self.key {
            "kubernetes.io/service-name" => &mut labels.service_name,
            "service.kubernetes.io/service-proxy-name" => &mut labels.service_proxy_name,
            "service.kubernetes.io/headless" => &mut labels.headless,
            "topology.kubernetes.io/zone" => &mut labels.zone,
            _ => return,
        };
        *label = Some(self.value.into());
    }
}

impl<'a> Message<'a> for Entry<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.key = value.str(number)?,
            2 => self.value = value.str(number)?,
            _ => {}
        }
        Ok(())
    }
}

/// `Time`; the zero time has no fields.
#[derive(Default)]
struct Time {
    seconds: Option<i64>,
}

impl Time {
    /// RFC 3339, as in JSON.
    fn text<'a>(&self) -> Option<crate::api::Text<'a>> {
        self.seconds.map(|seconds| rfc3339(seconds).into())
    }
}

impl<'a> Message<'a> for Time {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 1 {
            self.seconds = Some(value.int(number)?);
        }
        Ok(())
    }
}

/// A time in seconds since 1970 as the API writes it; years beyond four digits are cut.
fn rfc3339(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400);
    let second = seconds.rem_euclid(86_400);
    // Days to date: Howard Hinnant's civil_from_days, eras of 400 years from 1 March.
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era.saturating_mul(400) + year_of_era + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// `ListMeta`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListMeta<'a> {
    pub(super) resource_version: &'a str,
    pub(super) continuation: &'a str,
}

impl<'a> Message<'a> for ListMeta<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            2 => self.resource_version = value.str(number)?,
            3 => self.continuation = value.str(number)?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::parse_rfc3339;

    #[test]
    fn times_are_written_as_they_are_read() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_825_600), "2000-02-29T12:00:00Z");
        assert_eq!(rfc3339(1_714_558_830), "2024-05-01T10:20:30Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
        let mut time = 0_u64;
        while time < 4_102_444_800 {
            let text = rfc3339(i64::try_from(time).unwrap());
            assert_eq!(parse_rfc3339(&text), Some(time), "{text}");
            time += 86_399 * 17;
        }
        // Whatever somebody sends.
        for extreme in [i64::MIN, i64::MAX] {
            assert!(rfc3339(extreme).ends_with('Z'));
        }
    }
}
