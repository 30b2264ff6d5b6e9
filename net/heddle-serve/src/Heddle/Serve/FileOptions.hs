{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.FileOptions
-- Description : How files are served
-- Stability   : stable
--
-- Headers by path, media types, pages for what is not there, listings, compression. Start from
-- 'defaultFileOptions' and change fields; the @parse…@ functions read what a command line says, and refuse what
-- could not be sent.
--
-- Cost: values; what they cost when files are served is in "Heddle.Serve.Policy".
-- Owner: values.
module Heddle.Serve.FileOptions
  ( FileOptions (..),
    defaultFileOptions,
    Compression (..),
    parseCompression,
    TagParts (..),

    -- * Headers by path
    HeaderRule (..),
    RuleScope (..),
    parseHeaderRule,
    parseCacheRule,
    headerOf,
    replyHeaderOf,
    securityRules,

    -- * Other lists
    parseMediaRule,
    parseErrorPage,
    parseOrigin,

    -- * Bytes of an argument
    argumentBytes,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isAlphaNum, isAscii, isDigit, ord, toLower)
import Data.Text qualified as Text
import Data.Text.Encoding (encodeUtf8)
import Heddle.Http (Header (..))
import Heddle.Serve.Glob

-- | How files are served.
data FileOptions = FileOptions
  { -- | Later rules replace earlier ones for the same header; an empty value removes it.
    fileHeaderRules :: ![HeaderRule],
    -- | Media types by extension, in lower case, before the built-in ones.
    fileMedia :: ![(ByteString, ByteString)],
    -- | The origins whose pages may read replies: @*@ for all.
    fileOrigins :: ![ByteString],
    -- | Answer for paths without a file with the index of the root.
    fileFallback :: !Bool,
    -- | Files beneath the root that are sent with a status.
    fileErrorPages :: ![(Int, FilePath)],
    -- | List directories without an index.
    fileListings :: !Bool,
    fileCompression :: !Compression,
    -- | What an ETag is made of.
    fileTag :: !TagParts,
    -- | Serve what symbolic links lead to outside the root.
    fileFollow :: !Bool,
    -- | A file of user names and passwords, as @htpasswd@ writes it.
    fileUsers :: !(Maybe FilePath)
  }
  deriving stock (Eq, Show)

-- | Files as they are, with the media types that are built in, and nothing added.
defaultFileOptions :: FileOptions
defaultFileOptions =
  FileOptions
    { fileHeaderRules = [],
      fileMedia = [],
      fileOrigins = [],
      fileFallback = False,
      fileErrorPages = [],
      fileListings = False,
      fileCompression = CompressionOff,
      fileTag = TagOfAll,
      fileFollow = False,
      fileUsers = Nothing
    }

-- | What clients that accept a content coding get.
data Compression
  = -- | Files as they are.
    CompressionOff
  | -- | A compressed file beside the file, if there is one.
    CompressionStatic
  | -- | The same, and files compressed by the server.
    CompressionOn
  deriving stock (Eq, Show)

-- | @off@, @static@ or @on@.
parseCompression :: String -> Either String Compression
parseCompression = \case
  "off" -> Right CompressionOff
  "static" -> Right CompressionStatic
  "on" -> Right CompressionOn
  other -> Left ("'" ++ other ++ "' is not a way of compression; there are off, static and on")

-- | What tells a version of a file from others.
data TagParts
  = -- | Size, times of modification and of the last change, inode: no program can set them back, and copies differ.
    TagOfAll
  | -- | Time of modification, in seconds, and size, which copies have in common.
    TagOfMtimeAndSize
  deriving stock (Eq, Show)

-- | A header of replies about paths that match.
data HeaderRule = HeaderRule !RuleScope !Glob !Header
  deriving stock (Eq, Show)

-- | Which replies a rule is for.
data RuleScope
  = AllReplies
  | -- | All but errors: a cache that keeps an asset for a year must not keep its absence.
    NoErrors
  deriving stock (Eq, Show)

-- | Read @GLOB=NAME:VALUE@.
--
-- >>> either id (const "") (parseHeaderRule "*.html=Content-Length:3")
-- "the header Content-Length belongs to the server and cannot be set"
parseHeaderRule :: String -> Either String HeaderRule
parseHeaderRule text = do
  (glob, header) <- ruleOf "GLOB=NAME:VALUE" text
  case break (== ':') header of
    (name, ':' : value) -> HeaderRule AllReplies glob <$> headerOf name value
    _ -> Left ("'" ++ text ++ "' has no colon after the header's name; write GLOB=NAME:VALUE, such as '*.html=X-Robots-Tag:noindex'")

-- | Read @GLOB=VALUE@: the Cache-Control of paths that match, but not of errors.
parseCacheRule :: String -> Either String HeaderRule
parseCacheRule text = do
  (glob, value) <- ruleOf "GLOB=VALUE" text
  HeaderRule NoErrors glob <$> headerOf "Cache-Control" value

ruleOf :: String -> String -> Either String (Glob, String)
ruleOf form text = case break (== '=') text of
  (glob, '=' : rest) -> (\g -> (g, rest)) <$> parseGlob (argumentBytes glob)
  _ -> Left ("'" ++ text ++ "' has no = after the pattern; write " ++ form)

-- | A header of replies about files.
--
-- >>> headerOf "Content-Type" "text/plain"
-- Left "the Content-Type follows from a file's extension; set it with --mime EXT=TYPE"
headerOf :: String -> String -> Either String Header
headerOf name given
  | map toLower name == "location" = Left (ownHeader name)
  | map toLower name == "content-type" = Left "the Content-Type follows from a file's extension; set it with --mime EXT=TYPE"
  | otherwise = replyHeaderOf name given

-- | A header of a reply that is no file's, which may also name another address.
replyHeaderOf :: String -> String -> Either String Header
replyHeaderOf name given
  | null name || not (all isToken name) = Left ("'" ++ name ++ "' is not the name of a header")
  | map toLower name `elem` ours = Left (ownHeader name)
  | not (all isFieldChar value) = Left ("the value of the header " ++ name ++ " holds a character that cannot be sent (only printable ASCII can)")
  | otherwise = Right (Header (C.pack name) (C.pack value))
  where
    value = trim given
    -- What frames messages, or says what the server knows better.
    ours = ["accept-ranges", "connection", "content-encoding", "content-length", "content-range", "date", "etag", "keep-alive", "last-modified", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]

ownHeader :: String -> String
ownHeader name = "the header " ++ name ++ " belongs to the server and cannot be set"

isToken :: Char -> Bool
isToken c = isAscii c && (isAlphaNum c || c `elem` ("!#$%&'*+-.^_`|~" :: String))

isFieldChar :: Char -> Bool
isFieldChar c = c == '\t' || (c >= ' ' && c < '\DEL')

trim :: String -> String
trim = ends . ends
  where
    ends = reverse . dropWhile (`elem` (" \t" :: String))

-- | Headers that make browsers more careful: no guessing of types, no foreign frames around pages, no
-- paths of this site told to others.
securityRules :: [HeaderRule]
securityRules =
  map
    (HeaderRule AllReplies everything)
    [ Header "X-Content-Type-Options" "nosniff",
      Header "X-Frame-Options" "SAMEORIGIN",
      Header "Content-Security-Policy" "frame-ancestors 'self'",
      Header "Referrer-Policy" "strict-origin-when-cross-origin",
      Header "Cross-Origin-Opener-Policy" "same-origin"
    ]

-- | Read @EXT=TYPE@, with or without the extension's dot.
parseMediaRule :: String -> Either String (ByteString, ByteString)
parseMediaRule text = case break (== '=') text of
  (extension, '=' : media)
    | null (bare extension) || any (`elem` ("./" :: String)) (bare extension) -> Left ("'" ++ extension ++ "' is not an extension; write EXT=TYPE, such as glb=model/gltf-binary")
    | isMedia media -> Right (argumentBytes (map toLower (bare extension)), C.pack media)
    | otherwise -> Left ("'" ++ media ++ "' is not a media type such as text/plain")
  _ -> Left ("'" ++ text ++ "' has no = after the extension; write EXT=TYPE, such as glb=model/gltf-binary")
  where
    bare extension = case extension of '.' : rest -> rest; _ -> extension
    isMedia media = case break (== '/') media of
      (kind, '/' : rest) ->
        let (sub, parameters) = span isToken rest
         in not (null kind) && all isToken kind && not (null sub) && all isFieldChar parameters && take 1 (dropWhile (== ' ') parameters) `elem` ["", ";"]
      _ -> False

-- | Read @STATUS=FILE@.
parseErrorPage :: String -> Either String (Int, FilePath)
parseErrorPage text = case break (== '=') text of
  (digits@[first, _, _], '=' : file)
    | all isDigit digits && first `elem` ("45" :: String) ->
      let status = read digits in if null (dropWhile (== '/') file) then Left "an error page needs a file: STATUS=FILE" else Right (status, dropWhile (== '/') file)
  (status, '=' : _) -> Left ("'" ++ status ++ "' is not the status of an error (400 to 599)")
  _ -> Left ("'" ++ text ++ "' has no = after the status; write STATUS=FILE, such as 404=404.html")

-- | Read an origin: @*@, or a scheme and a host, with a port if it is not the scheme's own.
parseOrigin :: String -> Either String ByteString
parseOrigin text
  | text == "*" || text == "null" = Right (C.pack text)
  | Just rest <- after "https://", plain rest = Right (C.pack (map toLower text))
  | Just rest <- after "http://", plain rest = Right (C.pack (map toLower text))
  | otherwise = Left ("'" ++ text ++ "' is not an origin such as https://www.example.org, or *")
  where
    after scheme = if map toLower (take (length scheme) text) == scheme then Just (drop (length scheme) text) else Nothing
    plain rest = not (null rest) && all (\c -> isAscii c && (isAlphaNum c || c `elem` (".-:[]" :: String))) rest

-- | The bytes that an argument was given in: GHC decodes bytes that are not valid in the locale into the
-- surrogates from U+DC80 on, and the rest is taken as UTF-8.
argumentBytes :: String -> ByteString
argumentBytes = B.concat . map one
  where
    one c
      | ord c >= 0xDC80 && ord c <= 0xDCFF = B.singleton (fromIntegral (ord c - 0xDC00))
      | otherwise = encodeUtf8 (Text.singleton c)
