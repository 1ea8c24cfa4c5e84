//! k8s.io/api/networking/v1: `ServiceCIDR`.

use super::Message;
use super::wire::{ProtobufError, Value};
use crate::api::{ServiceCidr, ServiceCidrSpec};

impl<'a> Message<'a> for ServiceCidr<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.metadata),
            2 => value.merge(number, &mut self.spec),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for ServiceCidrSpec<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 1 {
            self.cidrs.push(value.str(number)?.into());
        }
        Ok(())
    }
}
