/* Events of a YAML document with their marks, by libyaml. One call is one event, so that strings are copied once, into their final form. */
#include <stdlib.h>
#include <yaml.h>

struct heddle_yaml {
    yaml_parser_t parser;
    /* The last event; what it points to lives until the next one. */
    yaml_event_t event;
    int held;
    const unsigned char *text;
    size_t length;
};

/* What an event is, besides its kind. Lines and columns count from 1, columns in characters. */
struct heddle_yaml_event {
    long line, column;
    long length;
    const char *value;
    const char *anchor;
    /* A scalar was written without quotes, and not as a block. For an error: the line where what it is about begins, or 0. */
    long plain;
    /* For an error: what was being read, or NULL. */
    const char *context;
};

enum { YAML_WRONG = -1, YAML_ENDED, YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING, YAML_END, YAML_ALIAS };

/* NULL without memory. The text must outlive the parser. */
struct heddle_yaml *heddle_yaml_open(const unsigned char *text, size_t length)
{
    struct heddle_yaml *yaml = calloc(1, sizeof *yaml);
    if (!yaml) return NULL;
    if (!yaml_parser_initialize(&yaml->parser)) {
        free(yaml);
        return NULL;
    }
    yaml->text = text;
    yaml->length = length;
    yaml_parser_set_input_string(&yaml->parser, text, length);
    /* Two zero bytes in a text would otherwise be taken for UTF-16. */
    yaml_parser_set_encoding(&yaml->parser, YAML_UTF8_ENCODING);
    return yaml;
}

void heddle_yaml_close(struct heddle_yaml *yaml)
{
    if (yaml->held) yaml_event_delete(&yaml->event);
    yaml_parser_delete(&yaml->parser);
    free(yaml);
}

static int wrong(const struct heddle_yaml *yaml, struct heddle_yaml_event *out)
{
    const yaml_parser_t *parser = &yaml->parser;
    out->value = parser->problem ? parser->problem : "there is no memory to read it";
    out->length = 0;
    while (out->value[out->length]) out->length++;
    if (parser->error == YAML_READER_ERROR) {
        /* The reader knows an offset only. */
        out->line = out->column = 1;
        for (size_t i = 0; i < parser->problem_offset && i < yaml->length; i++) {
            if (yaml->text[i] == '\n') out->line++, out->column = 1;
            else if ((yaml->text[i] & 0xC0) != 0x80) out->column++;
        }
    } else {
        out->line = (long)parser->problem_mark.line + 1;
        out->column = (long)parser->problem_mark.column + 1;
        if (parser->context) {
            out->context = parser->context;
            out->plain = (long)parser->context_mark.line + 1;
        }
    }
    return YAML_WRONG;
}

/* The kind of the next event; after YAML_WRONG and YAML_ENDED there is none. */
int heddle_yaml_next(struct heddle_yaml *yaml, struct heddle_yaml_event *out)
{
    yaml_event_t *event = &yaml->event;
    *out = (struct heddle_yaml_event){0};
    for (;;) {
        if (yaml->held) yaml_event_delete(event);
        yaml->held = 0;
        if (!yaml_parser_parse(&yaml->parser, event)) return wrong(yaml, out);
        yaml->held = 1;
        out->line = (long)event->start_mark.line + 1;
        out->column = (long)event->start_mark.column + 1;
        switch (event->type) {
        case YAML_SCALAR_EVENT:
            out->value = (const char *)event->data.scalar.value;
            out->length = (long)event->data.scalar.length;
            out->anchor = (const char *)event->data.scalar.anchor;
            out->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
            return YAML_SCALAR;
        case YAML_SEQUENCE_START_EVENT:
            out->anchor = (const char *)event->data.sequence_start.anchor;
            return YAML_SEQUENCE;
        case YAML_MAPPING_START_EVENT:
            out->anchor = (const char *)event->data.mapping_start.anchor;
            return YAML_MAPPING;
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
            return YAML_END;
        case YAML_ALIAS_EVENT:
            out->anchor = (const char *)event->data.alias.anchor;
            return YAML_ALIAS;
        case YAML_NO_EVENT:
        case YAML_STREAM_END_EVENT:
            return YAML_ENDED;
        default:
            break;
        }
    }
}
