//! The host that a client asks for, as it was received and as routes see it. The requests of a
//! connection are usually for the same host, which is then looked at once.

use tidegate::http::codec::{KnownField, RequestHead, TargetForm};

use crate::route::without_port;

/// The host of the last request of a connection.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What the request said, if it said so in its field only.
    field: Option<Vec<u8>>,
    /// With its port. Empty if the request names none.
    host: String,
    /// In lower case, without a port.
    name: String,
}

impl Asked {
    /// Takes the host of a request. Returns it with its port, and as routes see it: in lower case,
    /// without a port.
    #[inline]
    pub(super) fn host(&mut self, head: &RequestHead<'_>) -> (&str, &str) {
        let field = match head.form() {
            TargetForm::Origin => head.known(KnownField::Host),
            _ => None,
        };
        if field.is_none() || field != self.field.as_deref() {
            self.take(head, field);
        }
        (&self.host, &self.name)
    }

    #[cold]
    fn take(&mut self, head: &RequestHead<'_>, field: Option<&[u8]>) {
        self.field = field.map(<[u8]>::to_vec);
        self.host.clear();
        self.host.push_str(head.authority().unwrap_or_default());
        self.name.clear();
        self.name.push_str(without_port(&self.host));
        self.name.make_ascii_lowercase();
    }
}

#[cfg(test)]
mod tests {
    //! One row for each request of a connection.

    use tidegate::http::codec::{BodyLimits, HeadLimits, HeadTable, RequestDecoder};

    use super::Asked;

    #[test]
    fn each_request_has_its_own_host() {
        let rows = [
            ("GET / HTTP/1.0\r\n", "", ""),
            (
                "GET / HTTP/1.1\r\nHost: A.example:80\r\n",
                "A.example:80",
                "a.example",
            ),
            (
                "GET /b HTTP/1.1\r\nHost: A.example:80\r\n",
                "A.example:80",
                "a.example",
            ),
            ("GET http://B:8/ HTTP/1.1\r\nHost: B:8\r\n", "B:8", "b"),
            ("GET / HTTP/1.1\r\nHost: B:8\r\n", "B:8", "b"),
            (
                "GET / HTTP/1.1\r\nHost: A.example:80\r\n",
                "A.example:80",
                "a.example",
            ),
            ("CONNECT C:443 HTTP/1.1\r\nHost: C:443\r\n", "C:443", "c"),
            ("GET / HTTP/1.1\r\nHost: c.\r\n", "c.", "c"),
            ("GET / HTTP/1.0\r\n", "", ""),
        ];
        let mut asked = Asked::default();
        for (text, host, name) in rows {
            let mut decoder = RequestDecoder::new(HeadLimits::DEFAULT, BodyLimits::DEFAULT);
            let mut table = HeadTable::new();
            let text = format!("{text}\r\n");
            let head = decoder.head(text.as_bytes(), &mut table).unwrap().unwrap();
            assert_eq!(asked.host(&head), (host, name), "{text}");
        }
    }
}
