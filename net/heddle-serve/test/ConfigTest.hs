{-# LANGUAGE OverloadedStrings #-}

-- | The tree of a configuration and its decoders: what is understood, and the exact words about what is not.
module ConfigTest (tests) where

import Data.ByteString.Lazy.Char8 qualified as L
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
      testProperty "a file with characters removed is read or refused with places in it" mutated
    ]

data Host = Host [String] String (Maybe Bool) (Maybe Int)
  deriving stock (Eq, Show)

hosts :: Decoder [Host]
hosts = objectOf "the configuration" (requiredKey "hosts" (oneOrMore host))
  where
    host =
      objectOf "a host" $
        Host
          <$> requiredKey "names" (oneOrMore (refine (\name -> if null name then Left "a name is empty" else Right name) anyText))
          <*> requiredKey "root" anyText
          <*> optionalKey "hidden" yesNo
          <*> optionalKey "port" (wholeNumber 1 65535 "a port")

read' :: L.ByteString -> Either [String] [Host]
read' content = either (Left . map renderProblem) Right (parseTree environment "site.yaml" content >>= decodeNode hosts)

environment :: Text -> Maybe Text
environment name = lookup name [("PLACE", "here"), ("EMPTY", "")]

valid :: L.ByteString
valid = "hosts: # two\n  - names: [a.example, \"b.example\"]\n    root: /srv/${PLACE}/$${x}\n    hidden: &h yes\n    port: ${PORT:-8080}\n  - {names: c, root: '/srv${EMPTY:-not}', hidden: *h}\n"

mistakes :: IO ()
mistakes =
  read' "hosts:\n  - nmes: a\n    root: [x]\n    hidden: maybe\n    hidden: no\n  - names: ['']\n    root: r\n    port: 99999\n  - x\nlisten: 80\n"
    @?= Left
      [ "site.yaml:2:5: 'nmes' is not a key of a host; did you mean 'names'?",
        "site.yaml:2:5: the key 'names' is missing here",
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
  read' "hosts: [a\nb: c" @?= Left ["site.yaml:1:10: this is not YAML: Unexpected '\\n'"]
  read' "" @?= Left ["site.yaml:1:1: the key 'hosts' is missing here"]
  read' "hosts: *x\n" @?= Left ["site.yaml:1:8: no value before this has the anchor &x"]
  read' "a: ${NONE}\nb: ${no name}\nc: ${PLACE\n"
    @?= Left
      [ "site.yaml:1:4: the environment has no variable NONE; set it, or write ${NONE:-default}",
        "site.yaml:2:4: '${no name}' does not name a variable; write ${NAME} or ${NAME:-default}",
        "site.yaml:3:4: '${' has no '}' after it; write $${ for the characters themselves"
      ]
  read' "a: b\n---\nc: d\n" @?= Left ["site.yaml:3:1: a second document begins here, and a configuration is one document"]

nearestWords :: IO ()
nearestWords = do
  nearest "lisen" ["hosts", "listen", "limits"] @?= Just "listen"
  nearest "hots" ["hosts", "root"] @?= Just "hosts"
  nearest "colour" ["hosts", "listen"] @?= Nothing

mutated :: Property
mutated = forAll (choose (1, 12) >>= \n -> vectorOf n (choose (0, L.length valid - 1))) $ \places ->
  let content = foldr (\at bytes -> let (a, b) = L.splitAt at bytes in a <> L.drop 1 b) valid places
      most = length (L.lines content) + 1
   in case parseTree environment "site.yaml" content >>= decodeNode hosts of
        Right found -> property (length (show found) >= 0)
        Left problems ->
          counterexample (L.unpack content) $
            property (not (null problems)) .&&. property (and [line >= 1 && line <= most && column >= 1 | Problem (Position _ line column) _ <- problems])
