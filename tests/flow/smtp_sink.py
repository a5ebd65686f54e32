#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An SMTP server (RFC 5321) that keeps what it is sent, and looks closely at how: every command in its order, every line
ended by CR LF and not too long. What is wrong is kept in `wrong`.

    smtp_sink.py PORT FOLDER       listens on 127.0.0.1 (0 = a free port); each mail becomes FOLDER/N.eml, made whole

The port is the first line that it prints."""
import base64
import os
import re
import socket
import ssl
import sys
import threading

LINE_MAX = 1000  # with its end, RFC 5321 4.5.3.1.6
PATH = re.compile(rb"<([^<>\s]*)>$")


class Mail:
    def __init__(self, sender, recipients, data, user, is_tls):
        self.sender, self.recipients, self.data, self.user, self.is_tls = sender, recipients, data, user, is_tls


class Sink:
    """tls: (certificate, key), for STARTTLS; is_smtps: TLS at once. login: (user, password) that is wanted. answers: what
    to say in place of the usual to a command, b"RCPT TO:<x>" -> b"550 no". hang: a command at which to say nothing."""

    def __init__(self, tls=None, is_smtps=False, login=None, answers=None, hang=None, port=0, on_mail=None):
        self.mails, self.wrong, self.lines = [], [], []
        self.is_smtps, self.login, self.answers, self.hang, self.on_mail = is_smtps, login, answers or {}, hang, on_mail
        self.context = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*tls)
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.url = f"smtp{'s' if is_smtps else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept, which would keep it open
        self.socket.close()

    def serve(self, connection):
        try:
            Session(self, connection).run()
        except (OSError, EOFError):
            pass
        finally:
            connection.close()

    def take(self, mail):
        self.mails.append(mail)
        if self.on_mail:
            self.on_mail(mail)


class Session:
    def __init__(self, sink, connection):
        self.sink, self.connection = sink, connection
        self.is_tls, self.greeted, self.user = False, False, None
        self.reset()

    def reset(self):
        self.sender, self.recipients = None, []

    def wrap(self):
        self.connection = self.sink.context.wrap_socket(self.connection, server_side=True)
        self.file = self.connection.makefile("rb")
        self.is_tls, self.greeted, self.user = True, False, None

    def say(self, line):
        self.connection.sendall(line + b"\r\n")

    def line(self):
        line = self.file.readline(LINE_MAX * 2)
        if not line:
            raise EOFError
        if not line.endswith(b"\r\n") or line.count(b"\r") != 1 or len(line) > LINE_MAX:
            self.sink.wrong.append(("a line", line))
        return line[:-2] if line.endswith(b"\r\n") else line

    def run(self):
        if self.sink.is_smtps:
            self.wrap()
        else:
            self.file = self.connection.makefile("rb")
        self.say(b"220 sink ESMTP")
        while True:
            line = self.line()
            self.sink.lines.append(line)
            verb = line.split(b" ")[0].upper()
            if self.sink.hang and line.startswith(self.sink.hang):
                self.file.read()  # until it gives up
                return
            if line in self.sink.answers:
                self.say(self.sink.answers[line])
            elif verb == b"QUIT":
                self.say(b"221 bye")
                return
            else:
                getattr(self, "do_" + verb.decode("ascii", "replace").lower(), self.unknown)(line)

    def unknown(self, line):
        self.sink.wrong.append(("a command", line))
        self.say(b"500 what?")

    def need(self, is_so, line):
        if not is_so:
            self.sink.wrong.append(("out of order", line))
            self.say(b"503 not now")
        return is_so

    def do_ehlo(self, line):
        self.greeted = True
        words = [b"sink", b"SIZE 1000000"]
        if self.sink.context and not self.is_tls:
            words.append(b"STARTTLS")
        if self.sink.login and (self.is_tls or not self.sink.context):
            words.append(b"AUTH PLAIN")
        for word in words[:-1]:
            self.say(b"250-" + word)
        self.say(b"250 " + words[-1])

    def do_starttls(self, line):
        if self.need(self.greeted and self.sink.context and not self.is_tls, line):
            self.say(b"220 go on")
            self.wrap()

    def do_auth(self, line):
        if not self.need(self.greeted and self.sink.login, line):
            return
        words = line.split(b" ")
        if len(words) < 3:
            self.say(b"334 ")
            words.append(self.line())
        parts = base64.b64decode(words[2]).split(b"\0")
        if tuple(p.decode() for p in parts[1:]) == self.sink.login:
            self.user = parts[1].decode()
            self.say(b"235 welcome")
        else:
            self.say(b"535 5.7.8 no")

    def path(self, line, prefix):
        if not line.upper().startswith(prefix):
            return None
        match = PATH.match(line[len(prefix):].split(b" SIZE=")[0].split(b" BODY=")[0])
        return match.group(1).decode() if match else None

    def do_mail(self, line):
        sender = self.path(line, b"MAIL FROM:")
        if self.need(self.greeted and self.sender is None and sender is not None, line):
            if self.sink.login and not self.user:
                self.say(b"530 5.7.0 log in first")
                return
            self.sender = sender
            self.say(b"250 ok")

    def do_rcpt(self, line):
        recipient = self.path(line, b"RCPT TO:")
        if self.need(self.sender is not None and recipient, line):
            self.recipients.append(recipient)
            self.say(b"250 ok")

    def do_rset(self, line):
        self.reset()
        self.say(b"250 ok")

    def do_data(self, line):
        if not self.need(self.recipients, line):
            return
        self.say(b"354 go on")
        lines = []
        while (text := self.line()) != b".":
            lines.append(text[1:] if text.startswith(b".") else text)
        if self.sink.hang == b".":
            self.file.read()
            return
        self.sink.take(Mail(self.sender, self.recipients, b"\r\n".join(lines) + b"\r\n", self.user, self.is_tls))
        self.reset()
        self.say(b"250 kept")


def main(port, folder):
    lock = threading.Lock()
    count = [0]

    def keep(mail):
        with lock:
            count[0] += 1
            path = f"{folder}/{count[0]}.eml"
            with open(path + ".new", "wb") as f:
                f.write(mail.data)
            os.rename(path + ".new", path)

    sink = Sink(port=int(port), on_mail=keep)
    print(sink.port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:3])
