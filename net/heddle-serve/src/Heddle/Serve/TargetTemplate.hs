{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.TargetTemplate
-- Description : Addresses made from requests
-- Stability   : stable
--
-- The target of a redirection or of a rewrite: text with nginx's variables. What a client has sent goes into it as it
-- was sent, except for bytes that could end a header or stand for something else in an address; those are percent-encoded.
--
-- Cost: a copy of each part.
-- Owner: values.
module Heddle.Serve.TargetTemplate
  ( TargetTemplate,
    parseTarget,
    renderTarget,
    targetVariables,
    targetNeedsHost,

    -- * Filling in
    Filling (..),
    fillTarget,
    safeInAddress,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAsciiLower, isDigit, toUpper)
import Data.List (intercalate)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Numeric (showHex)

-- | Text with variables.
newtype TargetTemplate = TargetTemplate [Piece]
  deriving stock (Eq, Show)

data Piece = Literal !ByteString | Variable !String !(Filling -> ByteString)

instance Eq Piece where
  Literal a == Literal b = a == b
  Variable a _ == Variable b _ = a == b
  _ == _ = False

instance Show Piece where
  showsPrec d = \case
    Literal text -> showsPrec d text
    Variable name _ -> showString ('$' : name)

-- | What variables stand for.
data Filling = Filling
  { fillScheme :: !ByteString,
    -- | Without the port.
    fillHost :: !ByteString,
    -- | The host and the port as the client named them.
    fillAuthority :: !ByteString,
    -- | The decoded path spelt canonically, with its slashes.
    fillPath :: !ByteString,
    -- | The part of it below the route's prefix, without a slash before it.
    fillRest :: !ByteString,
    -- | As sent; empty without one.
    fillQuery :: !ByteString
  }

variables :: [(String, Filling -> ByteString)]
variables =
  [ ("scheme", fillScheme),
    ("host", fillHost),
    ("http_host", fillAuthority),
    ("uri", fillPath),
    ("request_uri", \f -> fillPath f <> questioned f),
    ("rest", fillRest),
    ("args", fillQuery),
    ("query_string", fillQuery),
    ("is_args", \f -> if B.null (fillQuery f) then "" else "?")
  ]
  where
    questioned f = if B.null (fillQuery f) then "" else "?" <> fillQuery f

-- | The names that 'parseTarget' knows, without the dollar sign.
targetVariables :: [String]
targetVariables = map fst variables

-- | Read text with variables, @$name@ or @${name}@, and @$$@ for a dollar sign. Other characters than those of an address
-- are percent-encoded; control characters are refused.
--
-- >>> fmap renderTarget (parseTarget "https://example.org$request_uri")
-- Right "https://example.org$request_uri"
--
-- >>> parseTarget "/$nothing"
-- Left "there is no variable $nothing; there are $scheme, $host, $http_host, $uri, $request_uri, $rest, $args, $query_string, $is_args"
--
-- [Cost]: O(length).
parseTarget :: String -> Either String TargetTemplate
parseTarget = fmap TargetTemplate . go
  where
    go = \case
      "" -> Right []
      '$' : '$' : rest -> (Literal "$" :) <$> go rest
      '$' : '{' : rest -> case break (== '}') rest of
        (name, '}' : more) -> variable name more
        _ -> Left "after '${' a variable's name and '}' are needed"
      '$' : rest -> let (name, more) = span isNameChar rest in if null name then Left "after '$' a variable's name is needed; write $$ for a dollar sign" else variable name more
      text
        | (literal, rest) <- break (== '$') text ->
          if any (\c -> c < ' ' || c == '\DEL') literal
            then Left "a control character cannot be part of an address"
            else (Literal (safeInAddress (encodeUtf8 (T.pack literal))) :) <$> go rest
    variable name rest = case lookup name variables of
      Just value -> (Variable name value :) <$> go rest
      Nothing -> Left ("there is no variable $" ++ name ++ "; there are " ++ intercalate ", " (map ('$' :) targetVariables))
    isNameChar c = isAsciiLower c || isDigit c || c == '_'

-- | As 'parseTarget' reads it.
renderTarget :: TargetTemplate -> String
renderTarget (TargetTemplate pieces) = concatMap piece (zip pieces (drop 1 pieces ++ [Literal ""]))
  where
    piece = \case
      (Literal "$", _) -> "$$"
      (Literal text, _) -> C.unpack text
      (Variable name _, Literal next) | (c, _) : _ <- [(c, ()) | Just (c, _) <- [C.uncons next]], isAsciiLower c || isDigit c || c == '_' -> "${" ++ name ++ "}"
      (Variable name _, _) -> '$' : name

-- | The address. It holds no byte that could end a header or a request line, whatever the client has sent.
--
-- [Cost]: O(length).
fillTarget :: TargetTemplate -> Filling -> ByteString
fillTarget (TargetTemplate pieces) filling = B.concat [case piece of Literal text -> text; Variable _ value -> safeInAddress (value filling) | piece <- pieces]

-- | Test whether the address has the host that the client has named.
--
-- [Cost]: O(pieces).
targetNeedsHost :: TargetTemplate -> Bool
targetNeedsHost (TargetTemplate pieces) = or [name `elem` ["host", "http_host"] | Variable name _ <- pieces]

-- | Percent-encode what no address may hold: controls, spaces, quotation marks, angle brackets and bytes beyond ASCII. A percent
-- sign stays.
--
-- [Cost]: O(length); no copy if there is nothing to encode.
safeInAddress :: ByteString -> ByteString
safeInAddress text
  | C.all plain text = text
  | otherwise = C.concatMap (\c -> if plain c then C.singleton c else encoded c) text
  where
    plain c = c > ' ' && c < '\DEL' && C.notElem c "\"<>\\^`{|}"
    encoded c = C.pack ('%' : (if c < '\x10' then "0" else "") ++ map toUpper (showHex (fromEnum c) ""))
