//! k8s.io/api/core/v1: `Service`.

use super::Message;
use super::wire::{ProtobufError, Value};
use crate::api::{
    ClientIpConfig, Ingress, LoadBalancerStatus, Service, ServicePort, ServiceSpec, ServiceStatus,
    SessionAffinityConfig,
};

impl<'a> Message<'a> for Service<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.metadata),
            2 => value.merge(number, &mut self.spec),
            3 => value.merge(number, &mut self.status),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for ServiceSpec<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.push(number, &mut self.ports)?,
            3 => self.cluster_ip = value.text(number)?,
            4 => self.kind = value.text(number)?,
            5 => self.external_ips.push(value.str(number)?.into()),
            7 => self.session_affinity = value.text(number)?,
            9 => self
                .load_balancer_source_ranges
                .push(value.str(number)?.into()),
            11 => self.external_traffic_policy = value.text(number)?,
            12 => self.health_check_node_port = Some(value.int(number)?),
            14 => value.merge(number, &mut self.session_affinity_config)?,
            18 => self.cluster_ips.push(value.str(number)?.into()),
            22 => self.internal_traffic_policy = value.text(number)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for ServicePort<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.name = value.text(number)?,
            2 => self.protocol = value.text(number)?,
            3 => self.port = Some(value.int(number)?),
            5 => self.node_port = Some(value.int(number)?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for SessionAffinityConfig {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.client_ip),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for ClientIpConfig {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 1 {
            self.timeout_seconds = Some(value.int(number)?);
        }
        Ok(())
    }
}

impl<'a> Message<'a> for ServiceStatus<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.load_balancer),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for LoadBalancerStatus<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.push(number, &mut self.ingress),
            _ => Ok(()),
        }
    }
}

impl<'a> Message<'a> for Ingress<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.ip = value.text(number)?,
            3 => self.ip_mode = value.text(number)?,
            _ => {}
        }
        Ok(())
    }
}
