/*
 * The automaton, included once for each level; see heddle_json_check.c.
 *
 * Each state has a label. When the bytes run out, the state's number is stored, and the next call jumps to its label.
 */
#define HERE(q) (base + ((q) - start))
#define SUSPEND(s) do { state = (s); answer = HEDDLE_JSON_MORE; goto leave; } while (0)
#define WRONG(r, place) do { reason = (r); wrong = (place); goto refuse; } while (0)
/* An error in a number. Too many characters take precedence over other errors. */
#define TOO_LONG() (HERE(p) - check->mark > check->number_limit)
#define SUSPEND_NUMBER(s) do { if (TOO_LONG()) goto long_number; SUSPEND(s); } while (0)
#define WRONG_NUMBER(r) do { if (TOO_LONG()) goto long_number; WRONG(r, HERE(p)); } while (0)
/* Skips to the next byte that is no white space. Usually there is none, or one blank. */
#define SKIP(s)                                                     \
    do {                                                            \
        if (p == end) SUSPEND(s);                                   \
        c = *p;                                                     \
        if (c <= ' ') {                                             \
            if (is_space(c)) p++;                                   \
            if (p < end && *p <= ' ') p = NAME(visible)(p, end);    \
            if (p == end) SUSPEND(s);                               \
            c = *p;                                                 \
        }                                                           \
    } while (0)

TARGET static int NAME(check)(struct heddle_json_check *check, const uint8_t *start, int64_t length)
{
    const uint8_t *p = start, *const end = start + length;
    const int64_t base = check->offset;
    const int watched = check->watched;
    int64_t wrong = 0;
    int depth = check->depth, state = check->state, reason = 0, answer = 0;
    int object = depth > 0 && in_object(check, depth);
    int key = check->key;
    uint8_t c;

    switch (state) {
    case VALUE: goto value;
    case VALUE_OR_CLOSE: goto value_or_close;
    case KEY_OR_CLOSE: goto key_or_close;
    case KEY: goto key;
    case COLON: goto colon;
    case AFTER: goto after;
    case DONE: goto done;
    case BETWEEN: goto between;
    case SEPARATE: goto separate;
    case STRING: goto string;
    case ESCAPE: goto escape;
    case HEX: goto hex;
    case LOW_BACKSLASH: goto low_backslash;
    case LOW_U: goto low_u;
    case LOW_HEX: goto low_hex;
    case UTF8: goto utf8;
    case MINUS: goto minus;
    case ZERO: goto zero;
    case INTEGER: goto integer;
    case POINT: goto point;
    case FRACTION: goto fraction;
    case EXPONENT: goto exponent;
    case SIGN: goto sign;
    case POWER: goto power;
    case LITERAL: goto literal;
    case MARK: goto byte_order_mark;
    default: WRONG(check->reason, base);
    }

value_or_close:
    SKIP(VALUE_OR_CLOSE);
    if (c == ']') goto close;
    state = VALUE_OR_CLOSE;
    goto begin;

between:
    SKIP(BETWEEN);
    state = BETWEEN;
    goto begin;

value:
    SKIP(VALUE);
    state = VALUE;

begin:
    if (depth == watched && !check->announced) {
        check->announced = 1;
        answer = HEDDLE_JSON_BEGINS;
        goto leave;
    }
    if (watched == 1 && depth == 0 && c != '[') goto no_array;
    switch (c) {
    case '"':
        p++;
        key = 0;
        goto string;
    case '{':
        if (depth >= check->capacity || depth >= check->depth_limit) goto deeper;
        check->nesting[depth >> 6] |= 1ull << (depth & 63);
        depth++;
        p++;
        object = 1;
        goto key_or_close;
    case '[':
        if (depth >= check->capacity || depth >= check->depth_limit) goto deeper;
        check->nesting[depth >> 6] &= ~(1ull << (depth & 63));
        depth++;
        p++;
        object = 0;
        goto value_or_close;
    case '-':
        check->mark = HERE(p);
        p++;
        goto minus;
    case '0':
        check->mark = HERE(p);
        p++;
        goto zero;
    case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        check->mark = HERE(p);
        p++;
        goto integer;
    case 't':
        check->literal = 0;
        goto word;
    case 'f':
        check->literal = 1;
        goto word;
    case 'n':
        check->literal = 2;
    word:
        check->count = 0;
        if (end - p >= 5) {
            if (load32(p) == load32(words[check->literal]) && (check->literal != 1 || p[4] == 'e')) {
                p += 4 + (check->literal == 1);
                goto scalar_end;
            }
        }
        goto literal;
    default:
        if (c == 0xef && HERE(p) == 0) {
            check->count = 0;
            goto byte_order_mark;
        }
        WRONG(state == VALUE_OR_CLOSE ? HEDDLE_JSON_VALUE_OR_CLOSE : HEDDLE_JSON_VALUE, HERE(p));
    }

key_or_close:
    SKIP(KEY_OR_CLOSE);
    if (c == '}') goto close;
    if (c != '"') WRONG(HEDDLE_JSON_KEY_OR_CLOSE, HERE(p));
    p++;
    key = 1;
    goto string;

key:
    SKIP(KEY);
    if (c != '"') WRONG(HEDDLE_JSON_KEY, HERE(p));
    p++;
    key = 1;
    goto string;

colon:
    SKIP(COLON);
    if (c != ':') WRONG(HEDDLE_JSON_COLON, HERE(p));
    p++;
    goto value;

string:
    p = NAME(special)(p, end);
special:
    if (p == end) SUSPEND(STRING);
    c = *p;
    if (c == '"') {
        p++;
        if (key) goto colon;
        goto value_end;
    }
    if (c == '\\') {
        check->mark = HERE(p);
        p++;
        goto escape;
    }
    if (c < 0x20) WRONG(HEDDLE_JSON_CONTROL, HERE(p));
    p = NAME(wide)(p, start, end);
    if (p == end) SUSPEND(STRING);
    c = *p;
    if (c < 0x80) {
        if (is_special(c)) goto special;
        goto string;
    }
    /* Near the end of the bytes, or invalid. */
    check->mark = HERE(p);
    check->low = 0x80;
    check->high = 0xbf;
    if (c < 0xc2 || c > 0xf4) WRONG(HEDDLE_JSON_UTF8, HERE(p));
    check->count = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    if (c == 0xe0) check->low = 0xa0;
    if (c == 0xed) check->high = 0x9f;
    if (c == 0xf0) check->low = 0x90;
    if (c == 0xf4) check->high = 0x8f;
    p++;

utf8:
    for (; check->count > 0; check->count--, p++) {
        if (p == end) SUSPEND(UTF8);
        if (*p < check->low || *p > check->high) WRONG(HEDDLE_JSON_UTF8, check->mark);
        check->low = 0x80;
        check->high = 0xbf;
    }
    goto string;

escape:
    if (p == end) SUSPEND(ESCAPE);
    c = *p++;
    if (escaped_character[c]) {
        /* One escape is often followed by another. */
        if (p < end && is_special(*p)) goto special;
        goto string;
    }
    if (c != 'u') WRONG(HEDDLE_JSON_ESCAPE, check->mark);
    if (end - p > 4) {
        int32_t unit = hex_unit(p);
        if (unit >= 0 && (unit & 0xf800) != 0xd800) {
            p += 4;
            if (is_special(*p)) goto special;
            goto string;
        }
    }
    check->count = 0;
    check->code = 0;

hex:
    for (; check->count < 4; check->count++, p++) {
        if (p == end) SUSPEND(HEX);
        int digit = hex_digit(*p);
        if (digit < 0) WRONG(HEDDLE_JSON_ESCAPE, check->mark);
        check->code = check->code << 4 | (uint32_t)digit;
    }
    if ((check->code & 0xf800) != 0xd800) {
        if (p < end && is_special(*p)) goto special;
        goto string;
    }
    if (check->code & 0x400) WRONG(HEDDLE_JSON_SURROGATE, check->mark);

low_backslash:
    if (p == end) SUSPEND(LOW_BACKSLASH);
    if (*p != '\\') WRONG(HEDDLE_JSON_SURROGATE, check->mark);
    p++;

low_u:
    if (p == end) SUSPEND(LOW_U);
    if (*p != 'u') WRONG(HEDDLE_JSON_SURROGATE, check->mark);
    p++;
    check->count = 0;

low_hex:
    for (; check->count < 4; check->count++, p++) {
        if (p == end) SUSPEND(LOW_HEX);
        int digit = hex_digit(*p);
        if (digit < 0 || (check->count == 0 && digit != 0xd) || (check->count == 1 && digit < 0xc))
            WRONG(HEDDLE_JSON_SURROGATE, check->mark);
    }
    goto string;

minus:
    if (p == end) SUSPEND_NUMBER(MINUS);
    c = *p;
    if ((uint8_t)(c - '0') > 9) WRONG_NUMBER(HEDDLE_JSON_DIGIT);
    p++;
    if (c != '0') goto integer;

zero:
    if (p == end) SUSPEND_NUMBER(ZERO);
    c = *p;
    if ((uint8_t)(c - '0') <= 9) WRONG_NUMBER(HEDDLE_JSON_LEADING_ZERO);
    goto integer_end;

integer:
    p = NAME(digits)(p, end);
    if (p == end) SUSPEND_NUMBER(INTEGER);
    c = *p;
integer_end:
    if (c == '.') {
        p++;
        goto point;
    }
    if ((c | 0x20) != 'e') goto number_end;
    p++;
    goto exponent;

point:
    if (p == end) SUSPEND_NUMBER(POINT);
    if ((uint8_t)(*p - '0') > 9) WRONG_NUMBER(HEDDLE_JSON_DIGIT);
    p++;

fraction:
    p = NAME(digits)(p, end);
    if (p == end) SUSPEND_NUMBER(FRACTION);
    if ((*p | 0x20) != 'e') goto number_end;
    p++;

exponent:
    if (p == end) SUSPEND_NUMBER(EXPONENT);
    if (*p == '+' || *p == '-') p++;

sign:
    if (p == end) SUSPEND_NUMBER(SIGN);
    if ((uint8_t)(*p - '0') > 9) WRONG_NUMBER(HEDDLE_JSON_DIGIT);
    p++;

power:
    p = NAME(digits)(p, end);
    if (p == end) SUSPEND_NUMBER(POWER);

number_end:
    if (TOO_LONG()) goto long_number;
    goto scalar_end;

literal:
    for (; words[check->literal][check->count]; check->count++, p++) {
        if (p == end) SUSPEND(LITERAL);
        if (*p != words[check->literal][check->count]) WRONG(HEDDLE_JSON_TRUE + check->literal, HERE(p));
    }

scalar_end:
    if (depth > 0) goto value_end;
    if (!check->many) goto done;
    state = SEPARATE;
    goto top_end;

close:
    p++;
    depth--;
    object = depth > 0 && in_object(check, depth);

value_end:
    if (depth == 0) {
        if (!check->many) goto done;
        state = BETWEEN;
    top_end:
        if (watched != 0) goto resume;
    announce:
        check->announced = 0;
        answer = HEDDLE_JSON_ENDS;
        goto leave;
    }
    if (depth == watched) {
        state = AFTER;
        goto announce;
    }

after:
    SKIP(AFTER);
    if (c == ',') {
        p++;
        if (object) goto key;
        goto value;
    }
    if (c == (object ? '}' : ']')) goto close;
    WRONG(object ? HEDDLE_JSON_COMMA_OR_BRACE : HEDDLE_JSON_COMMA_OR_BRACKET, HERE(p));

resume:
    if (state == BETWEEN) goto between;

separate:
    if (p == end) SUSPEND(SEPARATE);
    c = *p;
    if (!is_space(c) && c != '"' && c != '[' && c != '{') WRONG(HEDDLE_JSON_SEPARATE, HERE(p));
    goto between;

done:
    SKIP(DONE);
    WRONG(HEDDLE_JSON_TRAILING, HERE(p));

byte_order_mark:
    for (; check->count < 3; check->count++, p++) {
        if (p == end) SUSPEND(MARK);
        if (*p != (uint8_t)"\xef\xbb\xbf"[check->count]) WRONG(HEDDLE_JSON_VALUE, 0);
    }
    WRONG(HEDDLE_JSON_BOM, 0);

long_number:
    WRONG(HEDDLE_JSON_LONG_NUMBER, check->mark);

no_array:
    if (c == 0xef && HERE(p) == 0) {
        check->count = 0;
        goto byte_order_mark;
    }
    WRONG(begins_value(c) ? HEDDLE_JSON_ARRAY : HEDDLE_JSON_VALUE, HERE(p));

deeper:
    if (depth >= check->depth_limit) WRONG(HEDDLE_JSON_DEPTH, HERE(p));
    answer = HEDDLE_JSON_DEEPER;

leave:
    check->offset = HERE(p);
    check->depth = depth;
    check->state = state;
    check->key = (uint8_t)key;
    return answer;

refuse:
    check->offset = wrong;
    check->reason = reason;
    check->state = REFUSED;
    return HEDDLE_JSON_WRONG;
}

#undef HERE
#undef SUSPEND
#undef WRONG
#undef TOO_LONG
#undef SUSPEND_NUMBER
#undef WRONG_NUMBER
#undef SKIP
