{-# LANGUAGE OverloadedStrings #-}

-- | The tree of a configuration and its decoders: what is understood, and the exact words about what is not.
module ConfigTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import Data.Text (Text)
import Heddle.Serve.Internal
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck (Property, choose, counterexample, forAll, property, testProperty, vectorOf, (.&&.))

tests :: TestTree
tests =
  testGroup
    "configuration"
    [ testCase "a file without a mistake" (read' valid @?= Right [Host ["a.example", "b.example"] "/srv/here/${x}" (Just True) (Just 8080), Host ["c"] "/srv" (Just True) Nothing]),
      testCase "all mistakes at once, with their places" mistakes,
      testCase "mistakes of syntax" syntax,
      testCase "the nearest word" nearestWords,
      testCase "aliasesOfAliasesTookAllMemory: a value may not stand for a million" aliases,
      testCase "bytesOfLatin1StoppedTheProgram: a text that is not UTF-8 has a line and a column" encodings,
      testCase "openBracketsDoubledTheTime: values nest to a depth" brackets,
      testCase "aBracketAtTheMarginWasAMistake: brackets and braces may be closed at any column" closing,
      testCase "escapesReachedTheTerminal: a problem is one line of visible characters" visible,
      testCase "hexadecimalWasANumber: digits alone are a number" numbers,
      testCase "mergeKeysWereNotExplained: a sentence instead of the list of keys" merging,
      testCase "nothingWasTheTextNull: ~ and null are nothing, in quotes they are texts" nothing,
      testProperty "a file with characters removed is read or refused with places in it" mutated
    ]

data Host = Host [String] String (Maybe Bool) (Maybe Int)
  deriving stock (Eq, Show)

hosts :: Decoder [Host]
hosts = objectOf "the configuration" (fromMaybe [] <$> optionalKey "hosts" (oneOrMore host))
  where
    host =
      objectOf "a host" $
        Host
          <$> (fromMaybe [] <$> optionalKey "names" (oneOrMore (refine (\name -> if null name then Left "a name is empty" else Right name) anyText)))
          <*> (fromMaybe "" <$> optionalKey "root" anyText)
          <*> optionalKey "hidden" yesNo
          <*> optionalKey "port" (wholeNumber 1 65535 "a port")

read' :: ByteString -> Either [String] [Host]
read' content = either (Left . map renderProblem) Right (parsed content >>= decodeNode hosts)

parsed :: ByteString -> Either [Problem] Node
parsed = either (Left . pure) Right . parseTree environment "site.yaml"

environment :: Text -> Maybe Text
environment name = lookup name [("PLACE", "here"), ("EMPTY", "")]

valid :: ByteString
valid = "hosts: # two\n  - names: [a.example, \"b.example\"]\n    root: /srv/${PLACE}/$${x}\n    hidden: &h yes\n    port: ${PORT:-8080}\n  - {names: c, root: '/srv${EMPTY:-not}', hidden: *h}\n"

mistakes :: IO ()
mistakes =
  read' "hosts:\n  - nmes: a\n    root: [x]\n    hidden: maybe\n    hidden: no\n  - names: ['']\n    root: r\n    port: 99999\n  - x\nlisten: 80\n"
    @?= Left
      [ "site.yaml:2:5: 'nmes' is not a key of a host; did you mean 'names'?",
        "site.yaml:3:11: expected a text, and this is a list",
        "site.yaml:4:13: 'maybe' is neither yes nor no",
        "site.yaml:5:5: the key 'hidden' is given twice",
        "site.yaml:6:13: a name is empty",
        "site.yaml:8:11: '99999' is not a port (1 to 65535)",
        "site.yaml:9:5: expected a host (a mapping), and this is a text",
        "site.yaml:10:1: 'listen' is not a key of the configuration; there is hosts"
      ]

syntax :: IO ()
syntax = do
  read' "hosts: [a\nb: c" @?= Left ["site.yaml:2:2: this is not YAML: did not find expected ',' or ']' (while parsing a flow sequence that begins at line 1)"]
  read' "" @?= Right []
  read' "hosts: \t\n\t- names: a\n" @?= Left ["site.yaml:2:1: this is not YAML: found character that cannot start any token; YAML is indented with spaces"]
  read' "hosts: *x\n" @?= Left ["site.yaml:1:8: no value before this has the anchor &x"]
  -- The rest is read in spite of them.
  read' "hosts: {names: '${NONE}', root: '${no name}', hidden: '${PLACE', port: 0}\n"
    @?= Left
      [ "site.yaml:1:16: the environment has no variable NONE; set it, or write ${NONE:-default}",
        "site.yaml:1:33: '${no name}' does not name a variable; write ${NAME} or ${NAME:-default}",
        "site.yaml:1:55: '${' has no '}' after it; write $${ for the characters themselves",
        "site.yaml:1:72: '0' is not a port (1 to 65535)"
      ]
  read' "a: b\n---\nc: d\n" @?= Left ["site.yaml:3:1: a second document begins here, and a configuration is one document"]

nearestWords :: IO ()
nearestWords = do
  nearest "lisen" ["hosts", "listen", "limits"] @?= Just "listen"
  nearest "hots" ["hosts", "root"] @?= Just "hosts"
  nearest "colour" ["hosts", "listen"] @?= Nothing

aliases :: IO ()
aliases = do
  let lists = C.unlines ("a0: &a0 [x, x, x, x, x, x, x, x, x, x]" : [C.concat ["a", n, ": &a", n, " [", C.intercalate ", " (replicate 10 ("*a" <> before)), "]"] | (before, n) <- zip digits (drop 1 digits)])
      digits = map (C.pack . show) [0 .. 9 :: Int]
  read' lists @?= Left ["site.yaml:6:45: with what this stands for, the configuration has more than 1000000 values"]
  -- Some are no harm.
  fmap length (read' "hosts: [&h {names: a, root: r}, *h, *h]") @?= Right 3

encodings :: IO ()
encodings = do
  read' "hosts: []\n# caf\xE9\n" @?= Left ["site.yaml:2:6: this is not UTF-8, which a configuration is written in"]
  read' "hosts: {names: \xC3\xA9\xFF}" @?= Left ["site.yaml:1:17: this is not UTF-8, which a configuration is written in"]
  read' "\xFF\xFEh\0" @?= Left ["site.yaml:1:1: this is not UTF-8, which a configuration is written in"]
  read' "hosts: []\nh\0" @?= Left ["site.yaml:2:2: a configuration holds no zero byte"]
  read' "hosts: {names: \"a\\0b\"}" @?= Left ["site.yaml:1:16: a text holds no zero byte"]
  -- A mark at the beginning, and lines as other systems end them.
  read' "\xEF\xBB\xBFhosts:\r\n- names: a\r\n  rot: b\r\n" @?= Left ["site.yaml:3:3: 'rot' is not a key of a host; did you mean 'root'?"]

brackets :: IO ()
brackets = do
  let tooDeep at = Left ["site.yaml:" ++ at ++ ": this is not YAML: values nest deeper than 100 here, and none of a configuration does"]
  read' ("hosts: " <> C.replicate 1000000 '[') @?= tooDeep "1:107"
  read' (C.unlines [C.replicate n ' ' <> "a:" | n <- [0 .. 1000]]) @?= tooDeep "101:101"
  fmap length (read' (C.unlines ("hosts:" : replicate 30 "  - {names: [a, b], root: r}"))) @?= Right 30

-- The standard wants it further in than the key; other readers do not, and people write it so.
closing :: IO ()
closing = do
  let hostsOf = fmap (map (\(Host names root _ _) -> (names, root))) . read'
  hostsOf "hosts: [\n  {\n    names: [\n\"a\",\nb\n],\n    root: r\n}\n]\n" @?= Right [(["a", "b"], "r")]
  hostsOf "hosts:\n- names: [\n  a\n]\n  root: r\n" @?= Right [(["a"], "r")]
  hostsOf "{\n\"hosts\": [\n{\"names\":\"a\",\n\"root\":\"r\"}\n]\n}\n" @?= Right [(["a"], "r")]
  hostsOf "hosts: {names: [:80]}\n" @?= Left ["site.yaml:1:17: this is not YAML: did not find expected node content; a value that begins with : is written in quotes"]

visible :: IO ()
visible = read' "\"ho\\e[31mts\": a\nhosts: {hidden: \"a\\nb\"}" @?= Left ["site.yaml:1:1: 'ho\\ESC[31mts' is not a key of the configuration; there is hosts", "site.yaml:2:17: 'a\\nb' is neither yes nor no"]

numbers :: IO ()
numbers = read' "hosts: [{port: 0x10}, {port: (5)}, {port: ' 7 '}, {port: +1}]" @?= Left ["site.yaml:1:" ++ column ++ ": '" ++ text ++ "' is not a port (1 to 65535)" | (column, text) <- [("16", "0x10"), ("30", "(5)"), ("43", " 7 "), ("58", "+1")]]

merging :: IO ()
merging = read' "hosts:\n  - <<: {root: r}\n" @?= Left ["site.yaml:2:5: keys are not merged with '<<'; write an alias for a whole value, or put the keys into a file and include it"]

nothing :: IO ()
nothing = do
  read' "hosts: [{root: ~}, {root: null}, {names: }]" @?= Left ["site.yaml:1:" ++ column ++ ": expected a text, and this is nothing; write it in quotes if it is meant as a text" | column <- ["16", "27"]] `orAlso` "site.yaml:1:42: a name is empty"
  read' "hosts: {root: '~', names: 'null'}" @?= Right [Host ["null"] "~" Nothing Nothing]
  where
    orAlso (Left known) more = Left (known ++ [more])
    orAlso other _ = other

mutated :: Property
mutated = forAll (choose (1, 12) >>= \n -> vectorOf n (choose (0, C.length valid - 1))) $ \places ->
  let content = foldr (\at bytes -> let (a, b) = C.splitAt at bytes in a <> C.drop 1 b) valid places
      most = length (C.lines content) + 1
   in case parsed content >>= decodeNode hosts of
        -- Whatever was read can be forced to its end.
        Right found -> foldr seq (property True) (show found)
        Left problems ->
          counterexample (C.unpack content) $
            property (not (null problems)) .&&. property (and [line >= 1 && line <= most && column >= 1 | Problem (Position _ line column) _ <- problems])
