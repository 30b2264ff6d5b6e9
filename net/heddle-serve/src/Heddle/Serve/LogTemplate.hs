{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.LogTemplate
-- Description : Log lines as the operator writes them
-- Stability   : stable
--
-- A text with nginx's variables, such as @$remote_addr [$time_local] "$request" $status@. It is compiled once to a list of
-- actions; the room for each field is decided then, so that every line fits.
--
-- Clients choose the content of most fields. It is escaped byte by byte as in the combined format, or as in a JSON string if
-- the text begins with a brace, so no request can end a line or forge another one.
--
-- Cost: the copies, and an unknown call for each field.
-- Owner: values; the caller's memory.
module Heddle.Serve.LogTemplate
  ( LogTemplate,
    parseTemplate,
    logVariables,

    -- * Writing
    LogRecord (..),
    pokeTemplate,
    tookNow,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (isAsciiLower, isDigit, toLower)
import Data.Text qualified as T
import Data.Text.Encoding (encodeUtf8)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, nullPtr)
import Foreign.Storable (peekByteOff)
import Heddle.Bytes.Write (bytes, char7, decimal, pokeWrite)
import Heddle.Http
import Heddle.Http.Borrowed
import Heddle.Prim.Clock
import Heddle.Serve.IsoTime (isoFromLogTime)
import Heddle.Serve.LogLine
import Heddle.Serve.Traceparent
import Heddle.Tls (certificateSubject)

-- | A compiled format.
data LogTemplate = LogTemplate
  { templateText :: !String,
    templateWriters :: ![PokeField]
  }

instance Eq LogTemplate where
  a == b = templateText a == templateText b

instance Show LogTemplate where
  showsPrec d = showsPrec d . templateText

-- | What a line tells of.
data LogRecord = LogRecord
  { recordClock :: !LogClock,
    recordRequest :: !Request,
    recordWhat :: !Logged,
    recordStatus :: !Status,
    -- | In bytes.
    recordSent :: !Int
  }

type PokeField = LogRecord -> Ptr Word8 -> IO (Ptr Word8)

-- What a variable writes.
data Field
  = -- | This many bytes at most, which need no escapes.
    Fixed !Int !PokeField
  | -- | A client's bytes; how many are wanted at most. The action passes their address and number on.
    Chosen !Int !(LogRecord -> (Ptr Word8 -> Int -> IO (Ptr Word8)) -> IO (Ptr Word8))
  | -- | The request line, made of several parts.
    RequestLine !Int

-- How a field's bytes are escaped.
data Escape = Escape
  { escapeBytes :: !(Int -> Ptr Word8 -> Ptr Word8 -> Int -> IO (Ptr Word8)),
    -- | Stands for a field that the request lacks.
    escapeNothing :: !ByteString
  }

-- | Write a record's line, with its newline, and return the address after it. There must be room for 'longestLine'.
pokeTemplate :: LogTemplate -> LogRecord -> Ptr Word8 -> IO (Ptr Word8)
pokeTemplate template record = go (templateWriters template)
  where
    go [] p = pokeWrite (char7 '\n') p
    go (writer : others) p = writer record p >>= go others

-- | Read a format: text with variables, @$name@ or @${name}@, and @$$@ for a dollar sign.
--
-- [Cost]: O(length).
parseTemplate :: String -> Either String LogTemplate
parseTemplate text = do
  parts <- partsOf text
  let fixed = sum (map fixedSize parts)
      wanted = [n | Right field <- parts, n <- [wantedSize field], n > 0]
      -- The newline, and the bytes that some primitives store beyond what they write.
      room = longestLine - 128 - fixed
      -- The longest fields are cut, to the same length.
      fits most = sum (map (min most) wanted) <= room
  case dropWhile (not . fits) [longestLine, longestLine - 1 .. leastField] of
    most : _ | room >= 0 -> pure (LogTemplate text (map (fieldOf (min most)) parts))
    _ -> Left ("the format has more than a line of " ++ show longestLine ++ " bytes can hold; leave some of it out")
  where
    escape = if take 1 text == "{" then Escape escapedForJson "" else Escape escaped "-"
    fixedSize = \case
      Left literal -> B.length literal
      Right (Fixed n _) -> n
      -- Spaces and the protocol.
      Right (RequestLine _) -> 12
      Right (Chosen _ _) -> 0
    wantedSize = \case
      Chosen n _ -> n
      RequestLine n -> n
      Fixed _ _ -> 0
    fieldOf share = \case
      Left literal -> \_ -> pokeWrite (bytes literal)
      Right (Fixed _ writer) -> writer
      Right (Chosen n source) -> chosen escape (share n) source
      Right (RequestLine n) -> requestLine escape (share n)

-- A field that is cut shorter than this says nothing.
leastField :: Int
leastField = 32

chosen :: Escape -> Int -> (LogRecord -> (Ptr Word8 -> Int -> IO (Ptr Word8)) -> IO (Ptr Word8)) -> PokeField
chosen escape most source record p = source record $ \from n ->
  if n <= 0 then pokeWrite (bytes (escapeNothing escape)) p else escapeBytes escape most p from n

requestLine :: Escape -> Int -> PokeField
requestLine escape most record p = case recordWhat record of
  LoggedGarbage -> firstLine (escapeBytes escape . min most) request p
  LoggedRequest -> do
    q <- withMethod request (escapeBytes escape (most `quot` 8) p)
    r <- pokeWrite (char7 ' ') q >>= withTarget request . escapeBytes escape (most - most `quot` 8)
    pokeWrite (char7 ' ') r >>= protocol record
  where
    request = recordRequest record

protocol :: PokeField
protocol record p = do
  major <- httpMajor (recordRequest record)
  minor <- httpMinor (recordRequest record)
  pokeWrite ("HTTP/" <> decimal major <> char7 '.' <> decimal minor) p

-- Reading ------------------------------------------------------------------------

partsOf :: String -> Either String [Either ByteString Field]
partsOf = \case
  "" -> Right []
  '$' : '$' : rest -> (Left "$" :) <$> partsOf rest
  '$' : '{' : rest -> case break (== '}') rest of
    (name, '}' : after') -> (:) . Right <$> variable name <*> partsOf after'
    _ -> Left "a '${' in the log's format has no '}'"
  '$' : rest -> case span isName rest of
    ("", _) -> Left "a '$' in the log's format has no name after it; write $$ for a dollar sign"
    (name, after') -> (:) . Right <$> variable name <*> partsOf after'
  text -> case break (== '$') text of
    (literal, rest)
      | any (\c -> c < ' ' && c /= '\t' || c == '\DEL') literal -> Left "the log's format has a control character; a line ends by itself"
      | otherwise -> (Left (encodeUtf8 (T.pack literal)) :) <$> partsOf rest
  where
    isName c = isAsciiLower c || isDigit c || c == '_'

variable :: String -> Either String Field
variable name = case lookup name variables of
  Just field -> Right field
  Nothing
    | Just header' <- nameOfHeader name -> Right (Chosen 256 (headerSource header'))
    | otherwise -> Left ("'$" ++ name ++ "' is not a variable of the log's format; there are " ++ unwords (map ('$' :) logVariables))
  where
    nameOfHeader text = case splitAt 5 text of
      ("http_", rest) | not (null rest) -> Just (C.pack [if c == '_' then '-' else toLower c | c <- rest])
      _ -> Nothing

-- | The names of all variables.
logVariables :: [String]
logVariables = map fst variables ++ ["http_NAME"]

variables :: [(String, Field)]
variables =
  [ ("remote_addr", Fixed 64 (\r -> pokeClient (recordClock r) (recordRequest r) (recordWhat r))),
    ("remote_user", Chosen 128 (ofRequest (noted "remote_user"))),
    ("realip_remote_addr", Fixed 64 (\r p -> pokePeer p (peer (recordRequest r)))),
    ("time_local", Fixed 32 (\r p -> timeOf r >>= \text -> pokeWrite (bytes text) p)),
    ("time_iso8601", Fixed 32 (\r p -> timeOf r >>= \text -> pokeWrite (bytes (isoFromLogTime text)) p)),
    ("msec", Fixed 24 (\_ p -> epochNowExactly >>= \(EpochSeconds s, Nanos n) -> pokeWrite (decimal s <> char7 '.') p >>= pokeThree (n `quot` 1000000))),
    ("request", RequestLine 2112),
    ("request_length", Fixed 24 (\r p -> lengthOf r >>= \n -> pokeWrite (decimal n) p)),
    ("request_method", Chosen 64 (ofRequest withMethod)),
    ("request_uri", Chosen 2048 (ofRequest withTarget)),
    ("uri", Chosen 2048 (ofRequest withPath)),
    ("args", Chosen 1024 (ofRequest queryOf)),
    ("server_protocol", Fixed 12 (\r p -> case recordWhat r of LoggedGarbage -> pokeWrite (char7 '-') p; LoggedRequest -> protocol r p)),
    ("host", Chosen 256 (ofRequest (\request use -> host request >>= (`borrowing` use)))),
    ("scheme", Fixed 5 (\r -> pokeWrite (if isSecure (recordRequest r) then "https" else "http"))),
    ("status", Fixed 20 (pokeWrite . decimal . statusCode . recordStatus)),
    ("body_bytes_sent", Fixed 20 (pokeWrite . decimal . recordSent)),
    ("request_time", Fixed 24 (\r p -> tookNow (recordRequest r) >>= \us -> pokeWrite (decimal (us `quot` 1000000) <> char7 '.') p >>= pokeThree (us `quot` 1000))),
    ("ssl_protocol", Chosen 32 (ofLayer factVersion)),
    ("ssl_cipher", Chosen 64 (ofLayer factCipher)),
    ("ssl_server_name", Chosen 256 (ofLayer factServerName)),
    ("ssl_client_s_dn", Chosen 512 (ofRequest clientNameOf)),
    ("request_id", Chosen 128 (headerSource "x-request-id")),
    ("trace_id", Chosen 32 (ofRequest traceOf)),
    ("upstream_addr", Chosen 256 (ofRequest (noted "upstream_addr"))),
    ("upstream_status", Chosen 64 (ofRequest (noted "upstream_status"))),
    ("upstream_time", Chosen 24 (ofRequest upstreamOf)),
    ("http_referer", Chosen 768 (known HeaderReferer)),
    ("http_user_agent", Chosen 512 (known HeaderUserAgent))
  ]
  where
    timeOf r = timeText (recordClock r) (requestBegan (recordRequest r))
    known which = ofRequest (withHeader which)
    noted name request use = notedForLog request name >>= maybe (use nullPtr 0) (`borrowing` use)
    lengthOf r = case recordWhat r of
      LoggedGarbage -> withReceived (recordRequest r) (\_ n -> pure n)
      LoggedRequest -> requestLength (recordRequest r)
    clientNameOf request use = maybe (pure Nothing) certificateSubject (secureFacts request >>= factPeerCertificate) >>= maybe (use nullPtr 0) (`borrowing` use)
    traceOf request use = do
      given <- withHeader HeaderTraceparent request (\p n -> B.packCStringLen (castPtr p, min 256 n))
      borrowing (maybe "" traceId (parseTraceparent given)) use
    upstreamOf request use = upstreamTime request >>= maybe (use nullPtr 0) (\(Nanos took) -> borrowing (C.pack (secondsText (took `quot` 1000000))) use)
    queryOf request use = query request >>= (`borrowing` use)
    ofLayer fact r use = maybe (use nullPtr 0) ((`borrowing` use) . fact) (secureFacts (recordRequest r))

-- The last three digits.
pokeThree :: Int -> Ptr Word8 -> IO (Ptr Word8)
pokeThree n = pokeWrite (digit 100 <> digit 10 <> digit 1)
  where
    digit place = char7 (toEnum (48 + n `quot` place `rem` 10))

-- Milliseconds as seconds.
secondsText :: Int -> String
secondsText n = show (n `quot` 1000) ++ "." ++ drop 1 (show (1000 + n `rem` 1000))

-- What was refused before it was a request has no parts.
ofRequest :: (Request -> (Ptr Word8 -> Int -> IO (Ptr Word8)) -> IO (Ptr Word8)) -> LogRecord -> (Ptr Word8 -> Int -> IO (Ptr Word8)) -> IO (Ptr Word8)
ofRequest part record use = case recordWhat record of
  LoggedGarbage -> use nullPtr 0
  LoggedRequest -> part (recordRequest record) use

borrowing :: ByteString -> (Ptr Word8 -> Int -> IO (Ptr Word8)) -> IO (Ptr Word8)
borrowing text use = unsafeUseAsCStringLen text (\(from, n) -> use (castPtr from) n)

-- The header with this name in lower case, whose hyphens may be underscores. Lines of one name are joined as 'header' does it.
headerSource :: ByteString -> LogRecord -> (Ptr Word8 -> Int -> IO (Ptr Word8)) -> IO (Ptr Word8)
headerSource wanted = ofRequest $ \request use ->
  foldRequestHeaders request step [] >>= \case
    [] -> use nullPtr 0
    [(from, n)] -> use from n
    several -> traverse (\(from, n) -> B.packCStringLen (castPtr from, n)) (reverse several) >>= \values -> borrowing (B.intercalate between (filter (not . B.null) values)) use
  where
    between = if wanted == "cookie" then "; " else ", "
    step found _ name nameLength value n
      | nameLength /= B.length wanted = pure found
      | otherwise = (\same -> if same then (value, n) : found else found) <$> sameName name 0
    sameName :: Ptr Word8 -> Int -> IO Bool
    sameName name i
      | i >= B.length wanted = pure True
      | otherwise = do
        b <- peekByteOff name i :: IO Word8
        if folded b == B.index wanted i then sameName name (i + 1) else pure False

-- As a header's name in lower case.
folded :: Word8 -> Word8
folded b
  | b >= 65 && b <= 90 = b + 32
  | b == 95 = 45
  | otherwise = b

-- | Measure how long a request has taken since its head was complete.
--
-- [Cost]: a reading of the clock.
-- [Units]: microseconds.
tookNow :: Request -> IO Int
tookNow request = do
  Deadline now <- monotonicNow
  let Deadline began = requestBegan request
  pure (max 0 (now - began) `quot` 1000)
