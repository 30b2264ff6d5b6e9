/* Whether markers go into the event log: 0 no, 1 yes, 2 as the runtime's flags say, which the first marker reads.
 *
 * A byte, read by every marker: plain, since any value is right for a moment after a change. A program that starts and
 * stops its log sets it. */
unsigned char heddle_trace_markers = 2;
