/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h - what the two halves of the XML encoding share. They are two files because reading needs expat and
 * writing is linked into libgridline, which needs libc alone: encoding_xml_out writes only, encoding_xml
 * (encodings.h) is the whole and pulls in the reader.
 *
 * The format, checked by docs/gridline-event.xsd:
 *
 *   <?xml version="1.0" encoding="UTF-8"?>
 *   <events xmlns="https://gridline.example/event/1">
 *   <event time="2026-11-15T21:20:28.123456Z" host="h" prog="p" level="info" name="cpu"><f n="user"
 *    t="float">1.5</f><f n="msg" t="text">a &lt; b</f></event>                               (one line)
 *   </events>
 *
 * host and prog are left out when they are not known. t is int, uint, float, bool, text or bytes. bytes are
 * in base64, and so is text with characters that XML 1.0 can't carry unchanged (control characters but tab
 * and line feed; U+FFFE, U+FFFF): that one is marked enc="base64". A host or prog with U+FFFE or U+FFFF is
 * written in base64 as host64 or prog64 instead. White space in a field is part of it. */
#ifndef GRIDLINE_EVENT_XML_H
#define GRIDLINE_EVENT_XML_H

#include "event/encoding.h"

#define XML_NAMESPACE "https://gridline.example/event/1"

extern const struct encoding encoding_xml_out;
extern const struct encoder_ops xml_encoder;

bool xml_detect(struct slice head);

#define XML_ENCODING_COMMON                                                              \
    .name = "xml", .suffix = ".xml", .mime = "application/xml",                          \
    .summary = "XML, one element an event (docs/gridline-event.xsd)", .is_lines = false, \
    .detect = xml_detect, .encoder = &xml_encoder

#endif
