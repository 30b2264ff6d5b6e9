{-# LANGUAGE OverloadedStrings #-}

-- | JSON texts: valid ones in every form of the grammar, and invalid ones with the place and the reason of the error.
module JsonGen
  ( -- * Right
    document,
    documentOf,
    numberText,
    stringText,
    blanks,

    -- * Wrong
    Bad (..),
    wrong,
    truncations,
    illFormed,

    -- * Anything
    mutant,
    pieces,
    loose,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (intToDigit, isDigit, toUpper)
import Data.Text qualified as Text
import Data.Text.Encoding qualified as Text
import Data.Word (Word8)
import Heddle.Json.Malformed
import Heddle.Json.Options
import Test.Tasty.QuickCheck

-- | A value with white space around it.
document :: Gen ByteString
document = sized (documentOf . min 40)

-- | A document of about this many values.
documentOf :: Int -> Gen ByteString
documentOf n = frequency [(9, around (valueText n)), (1, around (nested n))]
  where
    around text = mconcat <$> sequence [blanks, text, blanks]
    -- Deep, and nothing else.
    nested k = do
      layers <- resize (3 * k) (listOf (elements [("[", "]"), ("{\"k\":", "}"), ("[0 ,", " ]")]))
      inner <- valueText 1
      pure (mconcat (map fst layers) <> inner <> mconcat (map snd (reverse layers)))

valueText :: Int -> Gen ByteString
valueText n
  | n <= 1 = leaf
  | otherwise = frequency [(1, leaf), (3, array), (3, object)]
  where
    leaf = frequency [(2, elements ["true", "false", "null"]), (4, numberText), (4, stringText), (1, elements ["[]", "{}", "[ ]", "{\n}"])]
    array = enclosed "[" "]" . separated =<< parts valueText
    object = enclosed "{" "}" . separated =<< parts (\k -> mconcat <$> sequence [stringText, blanks, pure ":", blanks, valueText k])
    parts make = do
      k <- choose (0, min n 6)
      vectorOf k (make ((n - 1) `quot` max 1 k))
    enclosed open close inside = (\a b -> open <> a <> b <> close) <$> blanks <*> inside
    separated [] = pure ""
    separated (x : xs) = do
      rest <- mapM (\y -> (\a b -> a <> "," <> b <> y) <$> blanks <*> blanks) xs
      end <- blanks
      pure (mconcat (x : rest) <> end)

-- | White space: usually none or a blank, sometimes much.
blanks :: Gen ByteString
blanks =
  frequency
    [ (6, pure ""),
      (3, pure " "),
      (1, (\n -> "\n" <> C.replicate n ' ') <$> choose (0, 80)),
      (1, C.pack <$> resize 10 (listOf (elements " \t\r\n")))
    ]

-- | A number in any of its forms.
numberText :: Gen ByteString
numberText = do
  sign <- elements ["", "", "-"]
  int <- frequency [(1, pure "0"), (5, C.cons <$> elements "123456789" <*> digits 0)]
  fraction <- oneof [pure "", C.cons '.' <$> digits 1]
  power <- frequency [(2, pure ""), (1, mconcat <$> sequence [elements ["e", "E"], elements ["", "+", "-"], B.take 4 <$> digits 1])]
  pure (sign <> int <> fraction <> power)
  where
    digits least = do
      n <- frequency [(6, choose (least, 6)), (2, choose (least, 20)), (1, choose (least, 70))]
      C.pack <$> vectorOf n (elements "0123456789")

-- | A string with its quotes.
stringText :: Gen ByteString
stringText = (\body -> "\"" <> body <> "\"") <$> bodyText

bodyText :: Gen ByteString
bodyText = mconcat <$> (choose (0, 6) >>= \n -> vectorOf n part)
  where
    part =
      frequency
        [ (4, ascii =<< choose (0, 12)),
          (2, ascii =<< choose (0, 150)),
          (2, elements ["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t", "\\\\\\\\", "\\\\\\\""]),
          (1, escaped =<< oneof [choose (0, 0xd7ff), choose (0xe000, 0xffff)]),
          (1, (<>) <$> (escaped =<< choose (0xd800, 0xdbff)) <*> (escaped =<< choose (0xdc00, 0xdfff))),
          (2, wide ('\x80', '\x7ff')),
          (2, oneof [wide ('\x800', '\xd7ff'), wide ('\x4e00', '\x9fff'), wide ('\xe000', '\xffff')]),
          (1, wide ('\x10000', '\x10ffff')),
          (1, elements ["[1, 2]", "{ }", " : , ", "//", "null", "\x7f"])
        ]
    ascii n = C.pack <$> vectorOf n (elements (filter (`notElem` ("\"\\" :: String)) [' ' .. '~']))
    wide range = do
      n <- choose (1, 20)
      Text.encodeUtf8 . Text.pack <$> vectorOf n (choose range)

escaped :: Int -> Gen ByteString
escaped unit = do
  digits <- mapM (\d -> elements [intToDigit d, toUpper (intToDigit d)]) [unit `quot` 4096, unit `quot` 256 `rem` 16, unit `quot` 16 `rem` 16, unit `rem` 16]
  pure ("\\u" <> C.pack digits)

-- | An invalid text with the reason.
data Bad = Bad
  { -- | In words, for 'label' and failures.
    wrongKind :: !String,
    wrongText :: !ByteString,
    wrongOffset :: !Int,
    wrongReason :: !Reason
  }
  deriving stock (Show)

-- | A text that is wrong within these limits ('limitDepth' should be at least 200, 'limitNumber' at least 200).
wrong :: Limits -> Gen Bad
wrong limits = do
  place <- context
  n <- choose (0, 20)
  junk <- B.pack <$> vectorOf n arbitrary
  oneof [inValue limits place junk, inString place junk, structure place junk, whole limits]

-- Text up to a place for a value: what is expected there, and the error if something else follows the value.
data Context = Context ByteString String Reason

context :: Gen Context
context = do
  layers <- resize 6 (listOf layer)
  end <- blanks
  let (word, after) = if null layers then ("a value", TrailingBytes) else let (_, w, r) = last layers in (w, r)
  pure (Context (mconcat [t | (t, _, _) <- layers] <> end) word after)
  where
    layer =
      oneof
        [ (\a -> (a <> "[", "a value or ']'", Expected "',' or ']'")) <$> blanks,
          (\a v b -> (a <> "[" <> v <> b <> ",", "a value", Expected "',' or ']'")) <$> blanks <*> documentOf 3 <*> blanks,
          (\a s b -> (a <> "{" <> s <> b <> ":", "a value", Expected "',' or '}'")) <$> blanks <*> stringText <*> blanks,
          (\a s v t b -> (a <> "{" <> s <> ":" <> v <> "," <> t <> b <> ":", "a value", Expected "',' or '}'")) <$> blanks <*> stringText <*> documentOf 3 <*> stringText <*> blanks
        ]

-- Wrong literals and numbers.
inValue :: Limits -> Context -> ByteString -> Gen Bad
inValue limits (Context before word after) junk =
  oneof
    [ do
        literal <- elements ["true", "false", "null"]
        n <- choose (1, length literal - 1)
        other <- elements (filter (/= literal !! n) "Xx10 \",]}\n\0")
        made "literal" (C.pack (take n literal) <> C.singleton other) n (Expected literal),
      do
        text <- elements ["+1", ".5", "NaN", "Infinity", "'a'", "/* */", "// x", "\\", "*", "undefined", "True", "\xe2\x82\xac", "\0", "\x0b", "\x1f", "\xc2\xa0", ":", ",", "}", "#"]
        made "no value" text 0 (Expected word),
      do
        sign <- elements ["", "-"]
        (text, at) <- elements [("", 0), ("1.", 2), ("0.", 2), ("10.", 3), ("1e", 2), ("1E+", 3), ("0e-", 3), ("12.5e", 5), ("1.5E-", 5)]
        next <- elements [".", "e", "x", " ", "]", "}", ",", "\"", "-", "/", ":", "\xff"]
        let sign' = if B.null text then "-" else sign
            next' = if "e" `B.isInfixOf` text && C.last text == 'e' && next == "-" then "x" else next
        made "digit" (sign' <> text <> next') (at + B.length sign') (Expected "a digit"),
      do
        (text, at) <- elements [("00", 1), ("01", 1), ("-00", 2), ("-012", 2)]
        made "leading zero" text at (Expected "no digit after a leading zero"),
      do
        (text, at) <- elements [("0x1", 1), ("1a", 1), ("1_000", 1), ("12:", 2), ("1.5.2", 3), ("1e5e", 3), ("1e5.5", 3), ("truex", 4), ("null0", 4), ("1 2", 2), ("\"a\" \"b\"", 4), ("[] []", 3), ("{}:", 2), ("1\0", 1), ("{}\xff", 2)]
        made "behind a value" text at after,
      do
        sign <- elements ["", "-"]
        fill <- elements [C.replicate (limitNumber limits) '7', "0." <> C.replicate (limitNumber limits) '0', "1e" <> C.replicate (limitNumber limits) '1']
        made "long number" (sign <> fill <> "99") 0 (NumberTooLong (limitNumber limits)),
      do
        spare <- choose (0, 10)
        let inside = length (filter id (levels before))
            room = limitDepth limits - inside
        made "depth" (C.replicate (room + spare + 1) '[') room (TooDeep (limitDepth limits))
    ]
  where
    made kind text at why = pure (Bad kind (before <> text <> junk) (B.length before + at) why)

-- The brackets that are open at the end of a right beginning.
levels :: ByteString -> [Bool]
levels = go [] False . C.unpack
  where
    go open _ "" = open
    go open True ('\\' : _ : rest) = go open True rest
    go open True ('"' : rest) = go open False rest
    go open False ('"' : rest) = go open True rest
    go open False (c : rest)
      | c `elem` ("[{" :: String) = go (True : open) False rest
      | c `elem` ("]}" :: String) = go (drop 1 open) False rest
    go open quoted (_ : rest) = go open quoted rest

-- Wrong strings, as values and as keys.
inString :: Context -> ByteString -> Gen Bad
inString (Context before _ _) junk = do
  key <- elements ["", "", "{", "{\"a\":1,"]
  body <- bodyText
  n <- choose (0, 130)
  start <- elements [before <> key <> "\"" <> body, before <> key <> "\"" <> body <> C.replicate n 'a']
  let made kind text why = pure (Bad kind (start <> text <> junk) (B.length start) why)
  oneof
    [ elements ([0 .. 0x1f] :: [Word8]) >>= \c -> made "control character" (B.singleton c) ControlCharacter,
      elements ["\\x", "\\'", "\\0", "\\a", "\\v", "\\ ", "\\\n", "\\U0041", "\\u12G4", "\\u 123", "\\u+123", "\\u00e\"", "\\u\"", "\\u{1}", "\\\xc3\xa9", "\\u004\0"] >>= \text -> made "escape" text BadEscape,
      do
        high <- escaped =<< choose (0xd800, 0xdbff)
        other <- elements ["\"", "a", "\\n", "\\u0041", "\\ud83d", "\\uDBFF", "\\ue000", "\\udc0\"", "\\uD", "\\x", "\\", " \\udc00", "\xf0\x9f\x98\x80", "\\u"]
        made "high surrogate" (high <> other <> "\"") LoneSurrogate,
      do
        low <- escaped =<< choose (0xdc00, 0xdfff)
        made "low surrogate" low LoneSurrogate,
      illFormed >>= \text -> made "UTF-8" text InvalidUtf8
    ]

-- | Bytes that are not UTF-8, wrong from the first of them on, whatever precedes and follows.
illFormed :: Gen ByteString
illFormed =
  oneof
    [ B.pack <$> elements [[0x80], [0xbf], [0xc0, 0x80], [0xc1, 0xbf], [0xe0, 0x80, 0x80], [0xe0, 0x9f, 0xbf], [0xed, 0xa0, 0x80], [0xed, 0xbf, 0xbf], [0xf0, 0x80, 0x80, 0x80], [0xf0, 0x8f, 0xbf, 0xbf], [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xf8, 0x88, 0x80, 0x80, 0x80], [0xfe], [0xff]],
      do
        -- A sequence that breaks off.
        whole' <- B.unpack . Text.encodeUtf8 . Text.singleton <$> oneof [choose ('\x80', '\x7ff'), choose ('\x800', '\xd7ff'), choose ('\xe000', '\xffff'), choose ('\x10000', '\x10ffff')]
        n <- choose (1, length whole' - 1)
        next <- elements [0x22, 0x20, 0x41, 0x7f, 0xc2, 0xe0, 0xf0, 0xff]
        pure (B.pack (take n whole' <> [next, 0x22]))
    ]

-- Commas, colons, keys.
structure :: Context -> ByteString -> Gen Bad
structure (Context before _ _) junk = do
  value <- documentOf 3
  key <- stringText
  gap <- blanks
  other <- elements ["'k'", "k", "1", ":", ",", "[", "{", "null", "\0", "\xff", "/", "]", "}"]
  let made kind start text why = pure (Bad kind (before <> start <> text <> junk) (B.length before + B.length start) why)
      spaced v = B.snoc v 0x20
  oneof
    [ made "trailing comma in an array" ("[" <> value <> "," <> gap) "]" (Expected "a value"),
      made "trailing comma in an object" ("{" <> key <> ":" <> value <> "," <> gap) "}" (Expected "a key"),
      made "comma first" ("[" <> gap) "," (Expected "a value or ']'"),
      made "no comma in an array" ("[" <> spaced value <> gap) (if other `elem` [",", "]"] then "1" else other) (Expected "',' or ']'"),
      made "no comma in an object" ("{" <> key <> ":" <> spaced value <> gap) (if other `elem` [",", "}"] then "\"" else other) (Expected "',' or '}'"),
      made "no colon" ("{" <> key <> gap) (if other == ":" then "\"" else other) (Expected "':'"),
      made "no key" ("{" <> gap) (if other == "}" then "]" else other) (Expected "a key or '}'"),
      made "no key behind a comma" ("{" <> key <> ":" <> value <> "," <> gap) other (Expected "a key"),
      made "no value behind a colon" ("{" <> key <> ":" <> gap) "}" (Expected "a value")
    ]

-- Errors of the text as a whole.
whole :: Limits -> Gen Bad
whole limits =
  oneof
    [ do
        text <- document
        pure (Bad "byte order mark" ("\xef\xbb\xbf" <> text) 0 ByteOrderMark),
      do
        text <- document
        other <- elements ["\xef", "\xef\xbb", "\xef\xbb ", "\xef\xbb\xbe", "\xfe\xff", "\xff\xfe"]
        pure (Bad "half a byte order mark" (other <> B.cons 0x20 text) 0 (Expected "a value")),
      do
        text <- document
        other <- elements ["x", ",", "]", "}", ":", "\0", "\"", "1", "null", "{", "\xef\xbb\xbf", "\xc2\xa0"]
        pure (Bad "trailing bytes" (text <> " " <> other) (B.length text + 1) TrailingBytes),
      do
        text <- document
        cut <- elements (truncations text)
        pure (Bad "truncated" cut (B.length cut) Truncated),
      do
        n <- choose (limitDepth limits + 1, limitDepth limits + 2000)
        pure (Bad "depth" (C.replicate n '[') (limitDepth limits) (TooDeep (limitDepth limits)))
    ]

-- | All beginnings of a document that are none themselves.
truncations :: ByteString -> [ByteString]
truncations text = filter (not . complete) (B.inits (C.dropWhileEnd (`elem` (" \t\r\n" :: String)) text) `without` text)
  where
    without texts full = filter (\t -> B.length t < B.length (C.dropWhileEnd (`elem` (" \t\r\n" :: String)) full)) texts
    -- A number may end sooner.
    complete t = maybe False (\(c, _) -> c == '-' || isDigit c) (C.uncons (start t)) && maybe False (isDigit . snd) (C.unsnoc t)
    start = C.dropWhile (`elem` (" \t\r\n" :: String))

-- | A document with a few bytes changed: usually invalid.
mutant :: Gen ByteString
mutant = do
  text <- documentOf 12
  n <- choose (1, 3 :: Int)
  go n text
  where
    go 0 text = pure text
    go n text = do
      at <- choose (0, B.length text)
      new <- oneof [B.singleton <$> arbitrary, C.singleton <$> elements "\"\\[]{},:0123456789.eE+-u \ntfn/dD8", B.pack <$> elements [[0xe2, 0x82, 0xac], [0xed, 0xa0], [0xc3], [0xf0, 0x9f]]]
      let (a, b) = B.splitAt at text
      changed <- elements [a <> new <> B.drop (B.length new) b, a <> new <> b, a <> B.drop 1 b, a <> B.drop 1 b <> new]
      go (n - 1 :: Int) changed

-- | Cut a text into pieces, some of them empty.
pieces :: ByteString -> Gen [ByteString]
pieces text
  | B.null text = elements [[], [""]]
  | otherwise = do
    n <- frequency [(3, choose (0, 3)), (3, choose (1, 40)), (1, choose (1, 500))]
    (B.take n text :) <$> pieces (B.drop n text)

-- | Limits that hardly anything reaches.
loose :: Limits
loose = defaultLimits {limitDepth = 100000, limitNumber = 100000, limitSize = maxBound, limitDuplicates = DuplicatesLast}
