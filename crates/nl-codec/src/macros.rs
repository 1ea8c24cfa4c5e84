//! Macros that keep an object's wire table in one place (attribute number, field, type), and what
//! values and guards have in common.

/// A struct that is a list of attributes, each field optional, encoded in the order written.
/// Attributes the struct does not know are skipped on decode.
macro_rules! attr_struct {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$lt:lifetime>)? {
            $( $(#[$fmeta:meta])* $num:literal => $field:ident : $ty:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name $(<$lt>)? {
            $( $(#[$fmeta])* pub $field: Option<$ty>, )*
        }

        impl $(<$lt>)? $name $(<$lt>)? {
            /// Appends the attributes that are present.
            ///
            /// # Errors
            /// See [`crate::EncodeError`].
            #[inline]
            pub fn encode_attrs<E: crate::Encoder>(
                &self,
                enc: &mut E,
            ) -> Result<(), crate::EncodeError> {
                $( if let Some(value) = &self.$field {
                    crate::put_attr(enc, $num, value)?;
                } )*
                let _ = &enc;
                Ok(())
            }
        }

        attr_struct!(@decode $name, [$($lt)?], { $( $num => $field, )* });

        #[cfg(test)]
        impl<'t> crate::arb::Arb<'t> for attr_struct!(@named 't $name $($lt)?) {
            fn arb(source: &mut crate::arb::Source<'t>) -> Self {
                let _ = &source;
                Self { $( $field: crate::arb::Arb::arb(source), )* }
            }
        }
    };
    (@named $arb:lifetime $name:ident $lt:lifetime) => { $name<$arb> };
    (@named $arb:lifetime $name:ident) => { $name };
    (@decode $name:ident, [$lt:lifetime], { $($num:literal => $field:ident,)* }) => {
        impl<$lt> $name<$lt> {
            /// Reads the attributes; unknown ones are skipped, the last of a kind wins.
            ///
            /// # Errors
            /// See [`crate::DecodeError`].
            pub fn decode_attrs(attrs: crate::Attrs<$lt>) -> Result<Self, crate::DecodeError> {
                attr_struct!(@body attrs, $name, { $($num => $field,)* })
            }
        }
        impl<$lt> crate::AttrValue<$lt> for $name<$lt> {
            attr_struct!(@nest $lt);
        }
        impl<$lt> crate::msg::Body<$lt> for $name<$lt> {
            attr_struct!(@message $lt);
        }
    };
    (@decode $name:ident, [], { $($num:literal => $field:ident,)* }) => {
        impl $name {
            /// Reads the attributes; unknown ones are skipped, the last of a kind wins.
            ///
            /// # Errors
            /// See [`crate::DecodeError`].
            pub fn decode_attrs(attrs: crate::Attrs<'_>) -> Result<Self, crate::DecodeError> {
                attr_struct!(@body attrs, $name, { $($num => $field,)* })
            }
        }
        impl<'a> crate::AttrValue<'a> for $name {
            attr_struct!(@nest 'a);
        }
        impl<'a> crate::msg::Body<'a> for $name {
            attr_struct!(@message 'a);
        }
    };
    (@message $lt:lifetime) => {
        #[inline]
        fn encode_body<E: crate::Encoder>(
            &self,
            enc: &mut E,
        ) -> Result<(), crate::EncodeError> {
            self.encode_attrs(enc)
        }

        #[inline]
        fn decode_body(attrs: crate::Attrs<$lt>) -> Result<Self, crate::DecodeError> {
            Self::decode_attrs(attrs)
        }
    };
    (@body $attrs:ident, $name:ident, { $($num:literal => $field:ident,)* }) => {{
        #[allow(unused_mut, reason = "a struct may have no attributes")]
        let mut out = Self::default();
        for attr in $attrs {
            let attr = attr?;
            match attr.kind {
                $( $num => out.$field = Some(
                    attr.value(concat!(stringify!($name), ".", stringify!($field)))?
                ), )*
                _ => {}
            }
        }
        Ok(out)
    }};
    (@nest $lt:lifetime) => {
        #[inline]
        fn encode<E: crate::Encoder>(
            &self,
            attr: u16,
            enc: &mut E,
        ) -> Result<(), crate::EncodeError> {
            let mut nest = enc.nest(attr)?;
            self.encode_attrs(&mut *nest)?;
            nest.end()
        }

        #[inline]
        fn decode(
            attr: &crate::Attr<$lt>,
            _what: &'static str,
        ) -> Result<Self, crate::DecodeError> {
            Self::decode_attrs(attr.nested())
        }
    };
}

/// A number with known names; unknown numbers survive a round trip.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($int:ty) {
            $( $(#[$vmeta:meta])* $variant:ident = $num:expr, $text:literal; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $int);

        impl $name {
            $( $(#[$vmeta])* pub const $variant: Self = Self($num); )*

            /// The name nft or the kernel headers use, if known.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( x if x == $num => Some($text), )*
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}", self.0),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{}({name})", stringify!($name)),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }

        value_as!($name as $int, |value: &Self| value.0, Self);
    };
}

/// Flag bits as one attribute; unknown bits survive a round trip.
macro_rules! flags_value {
    ($($name:ident),+ $(,)?) => {$(
        value_as!($name as <$name as bitflags::Flags>::Bits, Self::bits, Self::from_bits_retain);
    )+};
}

/// A value that is another one on the wire.
macro_rules! value_as {
    ($name:ident as $wire:ty, $to_wire:expr, $from_wire:expr) => {
        impl<'a> crate::AttrValue<'a> for $name {
            #[inline]
            fn encode<E: crate::Encoder>(
                &self,
                attr: u16,
                enc: &mut E,
            ) -> Result<(), crate::EncodeError> {
                crate::put_attr(enc, attr, &$to_wire(self))
            }

            #[inline]
            fn decode(
                attr: &crate::Attr<'a>,
                what: &'static str,
            ) -> Result<Self, crate::DecodeError> {
                attr.value::<$wire>(what).map($from_wire)
            }
        }

        #[cfg(test)]
        impl<'a> crate::arb::Arb<'a> for $name {
            fn arb(source: &mut crate::arb::Source<'a>) -> Self {
                $from_wire(<$wire as crate::arb::Arb<'a>>::arb(source))
            }
        }
    };
}

/// What the guards of an open nest and an open message share: they give access to their encoder, and
/// dropping one that is not ended (`open`) removes what was written since `start`.
macro_rules! open_guard {
    ($name:ident) => {
        impl<E: Encoder> $name<'_, E> {
            /// Where it starts.
            #[must_use]
            pub fn start(&self) -> usize {
                self.start
            }
        }

        impl<E: Encoder> core::ops::Deref for $name<'_, E> {
            type Target = E;

            #[inline]
            fn deref(&self) -> &E {
                self.enc
            }
        }

        impl<E: Encoder> core::ops::DerefMut for $name<'_, E> {
            #[inline]
            fn deref_mut(&mut self) -> &mut E {
                self.enc
            }
        }

        impl<E: Encoder> Drop for $name<'_, E> {
            #[inline]
            fn drop(&mut self) {
                if self.open {
                    self.enc.truncate(self.start);
                }
            }
        }
    };
}
