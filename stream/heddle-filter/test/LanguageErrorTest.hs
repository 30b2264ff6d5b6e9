{-# LANGUAGE OverloadedStrings #-}

-- | The messages of "Heddle.Filter.Language" for malformed expressions.
module LanguageErrorTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Heddle.Filter.Language
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertFailure, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "errors"
    [ testGroup "message, place and caret" goldens,
      testCase "a message as it is shown" (shows' "select row havng \"x\"" havng),
      testCase "the place in an expression of several lines" (shows' "id # first\n| head \"ten\"\n| id" severalLines),
      testCase "a caret behind characters of several bytes, and tabs" (shows' "prepend\t\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\" 5" wide)
    ]
  where
    havng =
      "column 12: expected 'having', 'having-only', 'followed-by', 'and', 'or', 'numbered', 'where', 'unless', '|', '||' or the end, found 'havng'; is 'having' meant?\n\
      \  select row havng \"x\"\n\
      \             ^\n"
    severalLines =
      "line 2, column 8: expected a number, 'where', 'unless', '|', '||' or the end, found a text in double quotes\n\
      \  | head \"ten\"\n\
      \         ^\n"
    wide =
      "column 15: expected 'where', 'unless', '|', '||' or the end, found the number 5\n\
      \  prepend \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\" 5\n\
      \                ^\n"

shows' :: ByteString -> ByteString -> IO ()
shows' expression shown = parseStage expression >>= either ((@?= shown) . renderParseError expression) (const (assertFailure "it was read"))

-- The expression, the line, the column, and the message.
wrong :: ByteString -> Int -> Int -> String -> TestTree
wrong expression line column message =
  testCase (show expression) . shows' expression $
    Bytes.concat
      [ Char8.pack (place ++ message ++ "\n  "),
        Char8.map (\c -> if c == '\t' then ' ' else c) (Char8.lines (expression <> "\n") !! (line - 1)),
        "\n  " <> Char8.replicate (column - 1) ' ' <> "^\n"
      ]
  where
    place = (if Char8.elem '\n' expression then "line " ++ show line ++ ", " else "") ++ "column " ++ show column ++ ": "

stages, behind, tight, pipes, splitters, atoms :: String
stages = "'id', 'suppress', 'select', 'if', 'foreach', 'count', 'number', 'numbers', 'prepend', 'append', 'instead', 'replace', 'head', 'tail', 'fields', 'concat', 'interleave', 'zip', 'flip', 'command', 'upper', 'lower', a text in double quotes, a regular expression between slashes or '('"
behind = "'having', 'having-only', 'followed-by', 'and', 'or'"
tight = "'having', 'having-only', 'followed-by'"
pipes = "'where', 'unless', '|', '||'"
splitters = "'not', 'first', 'last', 'prefix', 'suffix', " ++ atoms
atoms = "a text in double quotes, a regular expression between slashes, 'row', 'line', 'substring', 'bytes', 'from', 'word', 'whitespace', 'blank', 'digits', 'letters', 'capitals', 'controls', 'non-ascii', 'everything', 'nothing'"

goldens :: [TestTree]
goldens =
  [ wrong "" 1 1 ("expected " ++ stages ++ ", found the end"),
    wrong "   " 1 4 ("expected " ++ stages ++ ", found the end"),
    wrong "# only a comment" 1 17 ("expected " ++ stages ++ ", found the end"),
    wrong "select" 1 7 ("expected " ++ splitters ++ " or '(', found the end"),
    wrong "select \"a" 1 8 "this text does not end; a double quote closes it",
    wrong "prepend \"a\\q\"" 1 11 "there is no such escape; there are \\n, \\t, \\r, \\0, \\\\, \\\" and \\xHH",
    wrong "prepend \"\\x4\"" 1 10 "there is no such escape; there are \\n, \\t, \\r, \\0, \\\\, \\\" and \\xHH",
    wrong "select /a" 1 8 "this regular expression does not end; a slash closes it",
    wrong "select /(a/" 1 8 "this regular expression is malformed: Unmatched ( or \\(",
    wrong "select /a{2/" 1 8 "this regular expression is malformed: Unmatched \\{",
    wrong "select row havng \"x\"" 1 12 ("expected " ++ behind ++ ", 'numbered', " ++ pipes ++ " or the end, found 'havng'; is 'having' meant?"),
    wrong "selct row" 1 1 ("expected " ++ stages ++ ", found 'selct'; is 'select' meant?"),
    wrong "count rows" 1 7 ("expected " ++ splitters ++ ", '(', " ++ pipes ++ " or the end, found 'rows'; is 'row' meant?"),
    wrong "if row upper end" 1 8 ("expected " ++ behind ++ " or 'then', found 'upper'"),
    wrong "if row then upper" 1 18 ("expected " ++ pipes ++ ", 'else' or 'end', found the end"),
    wrong "if row then upper else lower" 1 29 ("expected " ++ pipes ++ " or 'end', found the end"),
    wrong "foreach row then upper else end" 1 29 ("expected " ++ stages ++ ", found 'end'"),
    wrong "head 1234567890123456" 1 6 "this number is too large",
    wrong "fields 0" 1 8 "fields are counted from 1",
    wrong "fields 3-1" 1 10 "this range ends before it begins",
    wrong "fields" 1 7 "expected a number, found the end",
    wrong "fields 1 by \"\"" 1 13 "fields are separated by at least one byte",
    wrong "prepend \"a\"i" 1 9 "only a text that is looked for can ignore case",
    wrong "fields 1 by \"a\"i" 1 13 "only a text that is looked for can ignore case",
    wrong "id id" 1 4 ("expected " ++ pipes ++ " or the end, found 'id'"),
    wrong "id |" 1 5 ("expected " ++ stages ++ ", found the end"),
    wrong "| id" 1 1 ("expected " ++ stages ++ ", found '|'"),
    wrong "id || || id" 1 7 ("expected " ++ stages ++ ", found '||'"),
    wrong "(id" 1 4 ("expected " ++ pipes ++ " or ')', found the end"),
    wrong "id)" 1 3 ("expected " ++ pipes ++ " or the end, found ')'"),
    wrong "concat (id)" 1 11 ("expected " ++ pipes ++ " or ',', found ')'"),
    wrong "concat (id, id, id)" 1 15 ("expected " ++ pipes ++ " or ')', found ','"),
    wrong "flip (id, id)" 1 6 "expected 'concat', 'interleave', 'zip' or 'flip', found '('",
    wrong "zip id, id" 1 5 "expected '(', found 'id'",
    wrong "replace \"a\"" 1 12 ("expected " ++ behind ++ " or 'with', found the end"),
    wrong "replace \"a\" by \"b\"" 1 13 ("expected " ++ behind ++ " or 'with', found 'by'"),
    wrong "select not" 1 11 ("expected " ++ splitters ++ " or '(', found the end"),
    wrong "select row and" 1 15 ("expected " ++ splitters ++ " or '(', found the end"),
    wrong "select row or or row" 1 15 ("expected " ++ splitters ++ " or '(', found 'or'"),
    wrong "select from \"a\"" 1 16 ("expected " ++ tight ++ " or 'to', found the end"),
    wrong "select from \"a\" \"b\"" 1 17 ("expected " ++ tight ++ " or 'to', found a text in double quotes"),
    wrong "select row having" 1 18 ("expected " ++ atoms ++ " or '(', found the end"),
    wrong "select row having not row" 1 19 ("expected " ++ atoms ++ " or '(', found 'not'"),
    wrong "select first -1 row" 1 14 ("expected a number, " ++ splitters ++ " or '(', found '-'"),
    wrong "command" 1 8 "expected a text in double quotes, found the end",
    wrong "command ls" 1 9 "expected a text in double quotes, found 'ls'",
    wrong "select \"\xc3\xa9\xc3\xa9\" havng \"x\"" 1 13 ("expected " ++ behind ++ ", 'numbered', " ++ pipes ++ " or the end, found 'havng'; is 'having' meant?"),
    wrong "id\n| upper\n| foo" 3 3 ("expected " ++ stages ++ ", found 'foo'"),
    wrong "\tid\t|\tfoo" 1 7 ("expected " ++ stages ++ ", found 'foo'"),
    wrong "\xff" 1 1 "nothing is written like this; texts are in double quotes, regular expressions between slashes",
    wrong "select \"a\" where row 5" 1 22 ("expected " ++ behind ++ ", " ++ pipes ++ " or the end, found the number 5"),
    wrong "number 5" 1 8 ("expected a text in double quotes, " ++ pipes ++ " or the end, found the number 5"),
    -- Habits of other programs.
    wrong "grep \"x\"" 1 1 "'grep' is no stage; \"text\" or /regex/ alone gives the rows that have it",
    wrong "id | sed" 1 6 "'sed' is no stage; replace \"text\" with \"other\" replaces, and replace /regex/ with \"other\"",
    wrong "awk '{print $1}'" 1 5 "nothing is written like this; texts are in double quotes, regular expressions between slashes",
    wrong "foreach row then cut end" 1 18 "'cut' is no stage; fields 1,3 by \":\" gives fields of rows",
    wrong "sort | uniq" 1 1 "'sort' is no stage; command \"sort\" runs that program",
    wrong "id | tac" 1 6 "'tac' is no stage; command \"tac\" runs that program",
    wrong "wc -l" 1 1 "'wc' is no stage; count gives the number of rows, count word that of words",
    wrong "head -5" 1 6 "there are no options; the number alone is how many rows, as in head 5",
    wrong "tail -n 5" 1 6 "there are no options; the number alone is how many rows, as in tail 5",
    wrong "/a(/" 1 1 "this regular expression is malformed: Unmatched ( or \\(",
    wrong "append" 1 7 "expected a text in double quotes, found the end",
    wrong "id ; id" 1 4 "nothing is written like this; texts are in double quotes, regular expressions between slashes",
    wrong "select /\xc3\xa9(/" 1 8 "this regular expression is malformed: Unmatched ( or \\(",
    wrong "select row followed-by" 1 23 ("expected " ++ atoms ++ " or '(', found the end"),
    wrong "select row followed-bye row" 1 12 ("expected " ++ behind ++ ", 'numbered', " ++ pipes ++ " or the end, found 'followed-bye'; is 'followed-by' meant?"),
    wrong "head ten" 1 6 ("expected a number, " ++ pipes ++ " or the end, found 'ten'"),
    wrong "upper lower" 1 7 ("expected " ++ pipes ++ " or the end, found 'lower'"),
    wrong "count substring" 1 16 "expected a text in double quotes, found the end",
    wrong "count bytes" 1 12 "expected a text in double quotes, found the end",
    wrong "select row numbered 3" 1 21 ("expected a text in double quotes, " ++ pipes ++ " or the end, found the number 3"),
    wrong "unless row" 1 1 ("expected " ++ stages ++ ", found 'unless'"),
    wrong "id unless" 1 10 ("expected " ++ splitters ++ " or '(', found the end"),
    wrong "id where" 1 9 ("expected " ++ splitters ++ " or '(', found the end"),
    wrong "select \"a\"x" 1 11 ("expected " ++ behind ++ ", 'numbered', " ++ pipes ++ " or the end, found 'x'"),
    wrong "head 5." 1 7 "nothing is written like this; texts are in double quotes, regular expressions between slashes",
    wrong "numbers 4" 1 9 ("expected " ++ pipes ++ " or the end, found the number 4"),
    wrong "select row having-ony row" 1 12 ("expected " ++ behind ++ ", 'numbered', " ++ pipes ++ " or the end, found 'having-ony'; is 'having-only' meant?"),
    wrong "select row -1" 1 12 ("expected " ++ behind ++ ", 'numbered', " ++ pipes ++ " or the end, found '-'"),
    wrong "prepend \"\xc3\xa9\\z\"" 1 11 "there is no such escape; there are \\n, \\t, \\r, \\0, \\\\, \\\" and \\xHH"
  ]
