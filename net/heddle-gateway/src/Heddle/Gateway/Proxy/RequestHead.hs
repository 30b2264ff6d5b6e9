{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Gateway.Proxy.RequestHead
-- Description : The head that a proxy writes to its upstream
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- A head is written from the parsed request, never copied: what frames the client's message, belongs to its connection, or claims where the
-- request comes from is left out and written afresh. So the upstream reads one request whatever the client has sent.
--
-- Cost: one copy of the client's head, straight into the new one.
-- Owner: values.
-- Source: RFC 9110, sections 7.6.1 and 7.6.3; RFC 7239.
module Heddle.Gateway.Proxy.RequestHead
  ( -- * Plans
    Plan (..),
    Framed (..),
    Unplanned (..),
    planOf,

    -- * Heads
    headFor,
    basePath,
  )
where

import Data.Bits ((.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as B (createUptoN)
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Data.ByteString.Unsafe qualified as B (unsafeDrop, unsafeIndex)
import Data.Char (isDigit)
import Data.Foldable (foldlM)
import Data.Maybe (fromMaybe, isNothing, listToMaybe)
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes)
import Foreign.Ptr (Ptr, castPtr, minusPtr, plusPtr)
import Foreign.Storable (peekByteOff, pokeByteOff)
import Heddle.Bytes.Write (byte, bytes, pokeWrite)
import Heddle.Gateway.Ascii (lowered)
import Heddle.Gateway.Place (hidesDots)
import Heddle.Gateway.Proxy.Address
import Heddle.Gateway.Proxy.Forwarded (forwardedClients)
import Heddle.Gateway.Proxy.Settings
import Heddle.Http
import Heddle.Http.Borrowed (addedHeadersFrom, foldRequestHeaders, hasHeader, requestHeadBytes)
import Heddle.Http.Client (Url (..), originAuthority)
import Heddle.Http.UriPath

-- | What is to be forwarded, apart from where.
data Plan = Plan
  { planMethod :: !ByteString,
    -- | The path after the prefix, and the query.
    planRest :: !ByteString,
    planHost :: !ByteString,
    -- | Header lines: most bytes, and what writes them to an address and returns their end, as long as the request is valid.
    planRoom :: !Int,
    planWrite :: !(Ptr Word8 -> IO (Ptr Word8)),
    planUpgrade :: !(Maybe ByteString),
    planExpects :: !Bool,
    -- | Whether the client has said @TE: trailers@, which this proxy then says, too.
    planTrailers :: !Bool,
    planFraming :: !Framed,
    -- | What upstreams are chosen by.
    planKey :: !ByteString
  }

-- | How the body is framed.
data Framed
  = Bodiless
  | Counted !Int
  | InChunks
  deriving stock (Eq)

-- | Why a request is not forwarded: what to answer, and a sentence.
data Unplanned = Unplanned !Status !ByteString

-- | Plan the forwarding of a request, perhaps with another path and query than the client's, and with the user whose
-- password this server has checked.
--
-- [Threads]: the handler's.
planOf :: ProxySettings -> Maybe ByteString -> Maybe ByteString -> Request -> IO (Either Unplanned Plan)
planOf settings instead user request =
  restOf (proxyPrefix settings) instead request >>= \case
    Left refusal -> pure (Left refusal)
    Right rest -> do
      code <- method request
      verb <- if B.null (methodName code) then methodBytes request else pure (methodName code)
      left <- bodyLeft request
      authority <- host request
      options <- connectionOptions request
      expects <- hasHeader request HeaderExpect
      trailers <- hasHeader request HeaderTe >>= \has -> if has then elem "trailers" . concatMap (map lowered . listed) <$> valuesOf request HeaderTe else pure False
      size <- requestHeadBytes request
      let !from = peerAddressOf (peer request)
          !trusted = not (null (proxyTrusted settings)) && any (isWithin from) (proxyTrusted settings)
          !framing = case left of
            Just 0 -> Bodiless
            Just n -> Counted n
            Nothing -> InChunks
          !nominated = if null options then [] else filter (`notElem` ["close", "keep-alive", "upgrade", "te"]) options
          -- A checked password is the server's own, and the name is told by the server.
          !named = if null user then nominated else "authorization" : "x-remote-user" : nominated
          !told = maybe "" userLine user
          -- What the client's Connection names is the client's: it does not take away what the server has added.
          !added = addedHeadersFrom request
          !clientText = peerText from
      upgrade <- if not (null options) && "upgrade" `elem` options && framing == Bodiless then upgradeOf request else pure Nothing
      hops <- if code == MethodOptions then header request HeaderMaxForwards else pure Nothing
      Claims claimsRoom claims <- claimsOf settings request trusted from clientText authority
      key <- keyOf settings request trusted clientText
      let !fewer = fewerHops hops
      pure . Right $
        Plan
          { planMethod = verb,
            planRest = rest,
            planHost = authority,
            -- A line grows by the space that it may have lacked, and has four bytes at least.
            planRoom = size + size `quot` 4 + claimsRoom + B.length fewer + B.length told,
            planWrite = \p -> foldRequestHeaders request (passed (code == MethodOptions) trusted named added) p >>= claims >>= pokeWrite (bytes fewer <> bytes told),
            planUpgrade = upgrade,
            planExpects = framing /= Bodiless && expects,
            planTrailers = trailers,
            planFraming = framing,
            planKey = key
          }

-- Write a header line, if it is passed on: the next address.
passed :: Bool -> Bool -> [ByteString] -> Ptr Word8 -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO (Ptr Word8)
passed counted trusted nominated added p known n nameLength v valueLength
  | known >= 0 =
    if isLeftOut (toEnum known) || (known == fromEnum HeaderXRealIp && not trusted) || (known == fromEnum HeaderMaxForwards && counted)
      then pure p
      else
        if null named
          then line
          else borrowed n nameLength >>= \name -> if lowered name `elem` named then pure p else line
  | otherwise = do
    suspect <- if null named then isSuspect n nameLength else pure True
    if suspect
      then do
        name <- borrowed n nameLength
        if lowered name `elem` named || dropsOther trusted name then pure p else line
      else line
  where
    named = if n >= added then [] else nominated
    line = do
      copyBytes p n nameLength
      let q = p `plusPtr` nameLength
      pokeByteOff q 0 (0x3A :: Word8)
      pokeByteOff q 1 (0x20 :: Word8)
      copyBytes (q `plusPtr` 2) v valueLength
      let r = q `plusPtr` (2 + valueLength)
      pokeByteOff r 0 (0x0D :: Word8)
      pokeByteOff r 1 (0x0A :: Word8)
      pure (r `plusPtr` 2)

borrowed :: Ptr Word8 -> Int -> IO ByteString
borrowed p n = unsafePackCStringLen (castPtr p, n)

-- Whether 'dropsOther' may drop a name: by its first letter, or an underscore in it.
isSuspect :: Ptr Word8 -> Int -> IO Bool
isSuspect n size = do
  first <- peekByteOff n 0 :: IO Word8
  if (first .|. 0x20) `elem` [0x66, 0x68, 0x70, 0x78]
    then pure True
    else C.elem '_' <$> borrowed n size

-- The elements of all Connection lines, in lower case.
connectionOptions :: Request -> IO [ByteString]
connectionOptions request =
  header request HeaderConnection >>= \case
    Nothing -> pure []
    Just _ -> concatMap (map lowered . listed) <$> valuesOf request HeaderConnection

-- The values of all lines of a header.
valuesOf :: Request -> KnownHeader -> IO [ByteString]
valuesOf request wanted = reverse <$> foldRequestHeaders request step []
  where
    step acc known _ _ v size
      | known == fromEnum wanted = (: acc) <$> B.packCStringLen (castPtr v, size)
      | otherwise = pure acc

-- The protocol to switch to.
upgradeOf :: Request -> IO (Maybe ByteString)
upgradeOf request = do
  major <- httpMajor request
  minor <- httpMinor request
  asked <- header request HeaderUpgrade
  pure $ case asked of
    Just value
      | major == 1,
        minor == 1,
        not (B.null value),
        -- An upstream that began HTTP/2 on this connection would take requests that this proxy has not seen.
        not (any (\name -> any (`B.isPrefixOf` lowered name) ["h2", "http", "tls"]) (listed value)) ->
        Just value
    _ -> Nothing

-- Header lines that are written in place: most bytes, and the action.
data Claims = Claims !Int !(Ptr Word8 -> IO (Ptr Word8))

-- What this proxy says itself: where the request comes from, and that it has passed here.
claimsOf :: ProxySettings -> Request -> Bool -> PeerAddress -> ByteString -> ByteString -> IO Claims
claimsOf settings request trusted from clientText authority = do
  via <- fromMaybe "" <$> header request HeaderVia
  others <- joined HeaderXForwardedFor
  othersForwarded <- joined HeaderForwarded
  scheme <- first HeaderXForwardedProto ownScheme
  hostSeen <- first HeaderXForwardedHost authority
  major <- httpMajor request
  minor <- httpMinor request
  let !version
        | major == 2 = 0x32 :: Word8
        | otherwise = 0x31
      !subversion
        | major == 2 || minor == 0 = 0x30 :: Word8
        | otherwise = 0x31
      !quotable = if B.elem 0x22 authority || B.elem 0x5C authority then B.filter isQuotable authority else authority
      !prefix = proxyPrefix settings
      !room = B.length others + B.length othersForwarded + B.length via + B.length scheme + B.length hostSeen + B.length prefix + B.length quotable + 2 * B.length clientText
  -- The names, punctuation and versions of all lines are 145 bytes.
  pure . Claims (room + 192) $ \start -> do
    named <- pokeWrite ("X-Forwarded-For: " <> bytes others <> bytes clientText <> "\r\nX-Forwarded-Proto: " <> bytes scheme) start
    hosted <- if B.null hostSeen then pure named else pokeWrite ("\r\nX-Forwarded-Host: " <> bytes hostSeen) named
    prefixed <- if B.null prefix then pure hosted else pokeWrite ("\r\nX-Forwarded-Prefix: " <> bytes prefix) hosted
    for <- pokeWrite ("\r\nForwarded: " <> bytes othersForwarded <> "for=") prefixed >>= node
    of' <- if B.null authority then pure for else pokeWrite (";host=\"" <> bytes quotable <> "\"") for
    passing <- pokeWrite (";proto=" <> bytes ownScheme <> "\r\nVia: ") of'
    after' <- if B.null via then pure passing else pokeWrite (bytes via <> ", ") passing
    pokeWrite (byte version <> "." <> byte subversion <> " heddle\r\n") after'
  where
    !ownScheme = if isSecure request then "https" else "http"
    given known = filter (not . B.null) <$> valuesOf request known
    first known own
      | trusted =
        given known >>= \case
          value : _ -> pure value
          [] -> pure own
      | otherwise = pure own
    joined known
      | trusted =
        given known >>= \case
          [] -> pure ""
          values -> pure $! B.intercalate ", " values <> ", "
      | otherwise = pure ""
    node = case from of
      PeerLocal -> pokeWrite "unknown"
      _ | C.elem ':' clientText -> pokeWrite ("\"[" <> bytes clientText <> "]\"")
      _ -> pokeWrite (bytes clientText)
    isQuotable b = b /= 0x22 && b /= 0x5C

-- What upstreams are chosen by.
keyOf :: ProxySettings -> Request -> Bool -> ByteString -> IO ByteString
keyOf settings request trusted clientText = case proxyBalance settings of
  ByAddress | trusted -> maybe clientText peerText . listToMaybe <$> forwardedClients (proxyTrusted settings) request
  ByAddress -> pure clientText
  ByHeader name -> fromMaybe clientText <$> headerNamed request name
  _ -> pure ""

-- How many proxies the request may still pass, after this one (RFC 9110, section 7.6.2). What is no number is left out, as
-- is a limit that nobody reaches.
fewerHops :: Maybe ByteString -> ByteString
fewerHops = \case
  Just digits | not (B.null digits), B.length digits <= 9, C.all isDigit digits, Just (n, _) <- C.readInt digits, n > 0 -> "Max-Forwards: " <> C.pack (show (n - 1)) <> "\r\n"
  _ -> ""

-- Who the client is. A name that no header can have is not told.
userLine :: ByteString -> ByteString
userLine user
  | B.null user || B.any (\b -> b < 0x20 || b == 0x7F) user = ""
  | otherwise = "X-Remote-User: " <> user <> "\r\n"

-- What belongs to a connection, or is written afresh.
isLeftOut :: KnownHeader -> Bool
isLeftOut = \case
  HeaderHost -> True
  HeaderConnection -> True
  HeaderContentLength -> True
  HeaderTransferEncoding -> True
  HeaderExpect -> True
  HeaderUpgrade -> True
  HeaderTe -> True
  HeaderTrailer -> True
  HeaderKeepAlive -> True
  HeaderProxyConnection -> True
  HeaderProxyAuthorization -> True
  HeaderVia -> True
  HeaderXForwardedFor -> True
  HeaderXForwardedProto -> True
  HeaderXForwardedHost -> True
  HeaderForwarded -> True
  _ -> False

-- Other spellings of the same, for servers that take an underscore for a hyphen, as CGI does; what tells an untrusted tale; what would
-- become the variable HTTP_PROXY of a program.
dropsOther :: Bool -> ByteString -> Bool
dropsOther trusted spelt
  | C.elem '_' spelt = hyphened `elem` framingNames || isForwarding hyphened
  | otherwise = name `elem` ["http2-settings", "proxy", "x-forwarded-prefix"] || (not trusted && isForwarding name)
  where
    name = lowered spelt
    hyphened = C.map (\c -> if c == '_' then '-' else c) name
    isForwarding n = "x-forwarded" `B.isPrefixOf` n || n `elem` ["x-real-ip", "forwarded", "x-remote-user"]
    framingNames = ["content-length", "transfer-encoding", "host", "connection"]

-- The elements of a list in a header's value.
listed :: ByteString -> [ByteString]
listed value = [part | raw <- C.split ',' value, let part = C.dropWhileEnd blank (C.dropWhile blank raw), not (B.null part)]
  where
    blank c = c == ' ' || c == '\t'

-- What of the target comes after the prefix. The client's spelling is kept, except where another reader could resolve it differently.
restOf :: ByteString -> Maybe ByteString -> Request -> IO (Either Unplanned ByteString)
restOf prefix instead request =
  form request >>= \case
    _ | Just (path, asked) <- C.break (== '?') <$> instead -> pure (after' path asked)
    AsteriskForm -> pure (if B.null prefix then Right "*" else Left elsewhere)
    OriginForm -> do
      whole <- target request
      pure (uncurry after' (C.break (== '?') whole))
    _ -> do
      path <- rawPath request
      asked <- query request
      -- An absolute target's query without its question mark, which an empty query has lost.
      pure (after' path (if B.null asked then "" else "?" <> asked))
  where
    after' path asked
      | plain path, Just rest <- below path = Right (rest <> asked)
      | otherwise = case decodePath path of
        Left PathEncodedSlash -> encoded path asked
        Left e -> Left (Unplanned (pathErrorStatus e) (pathErrorText e))
        Right decoded | hidesDots (pathRelative decoded) -> Left (Unplanned status400 "The path has a dot segment with a parameter.")
        Right decoded -> case below path of
          Just rest | not (hasDots path) -> Right (rest <> asked)
          _ -> maybe (Left elsewhere) (Right . (<> asked)) (below (encodePath decoded))
    -- Both readings of encoded slashes are below the prefix, or the upstream could take the path for one beside it.
    encoded path asked = case decodeBothWays path of
      Left e -> Left (Unplanned (pathErrorStatus e) (pathErrorText e))
      Right (octets, slashes)
        | any (hidesDots . pathRelative) [octets, slashes] -> Left (Unplanned status400 "The path has a dot segment with a parameter.")
        | isNothing (below (encodePath slashes)) -> Left elsewhere
        | Just rest <- below path, not (hasDots path) -> Right (rest <> asked)
        | otherwise -> maybe (Left elsewhere) (Right . (<> asked)) (below (encodePath octets))
    elsewhere = Unplanned status404 "Nothing is forwarded from this path."
    below path
      | B.null prefix = Just path
      | otherwise = case B.stripPrefix prefix path of
        Just rest | B.null rest || "/" `B.isPrefixOf` rest -> Just rest
        _ -> Nothing
    -- Nothing that could be decoded or resolved.
    plain path = not (C.elem '%' path || C.elem '\\' path || dotAfterSlash path)
    dotAfterSlash path = case C.elemIndex '.' path of
      Nothing -> False
      Just i -> (i > 0 && B.unsafeIndex path (i - 1) == 0x2F) || dotAfterSlash (B.unsafeDrop (i + 1) path)
    -- A segment of one or two dots, however they are written.
    hasDots path = any dots (C.split '/' path)
    dots segment = unescaped segment `elem` [".", ".."]
    unescaped segment = case B.breakSubstring "%2" segment of
      (a, b) | B.length b >= 3, C.index b 2 `elem` ("eE" :: String) -> a <> "." <> unescaped (B.drop 3 b)
      (a, b) | B.length b >= 2 -> a <> "%2" <> unescaped (B.drop 2 b)
      _ -> segment

-- | The path that takes the prefix's place: that of the upstream's URL, without a slash at its end.
basePath :: Upstream -> ByteString
basePath = C.dropWhileEnd (== '/') . C.takeWhile (/= '?') . urlTarget . upstreamUrl

-- | The target for an upstream with this base path, and the whole head.
--
-- [Cost]: that of writing it.
-- [Threads]: the handler's.
headFor :: ProxySettings -> Upstream -> ByteString -> Plan -> IO (ByteString, ByteString)
headFor settings upstream base planned = do
  written <- B.createUptoN (32 + B.length verb + B.length target' + B.length name + planRoom planned + sum (map B.length after')) $ \p -> do
    q <- pokeWrite (bytes verb <> " " <> bytes target' <> " HTTP/1.1\r\nHost: " <> bytes name <> "\r\n") p >>= planWrite planned
    end <- foldlM (\r part -> pokeWrite (bytes part) r) q after'
    pure (end `minusPtr` p)
  pure (target', written)
  where
    verb = planMethod planned
    after' = framing ++ final
    !target'
      | planRest planned == "*" = "*"
      | "/" `B.isPrefixOf` joined = joined
      | otherwise = "/" <> joined
    joined = base <> planRest planned
    !name = case proxyHost settings of
      HostOfClient | not (B.null (planHost planned)) -> planHost planned
      _ -> originAuthority (urlOrigin (upstreamUrl upstream))
    framing = case planFraming planned of
      Counted n -> ["Content-Length: ", C.pack (show n), "\r\n"]
      InChunks -> ["Transfer-Encoding: chunked\r\n"]
      -- A server could wait for the body of a method that usually has one.
      Bodiless | planMethod planned `elem` ["POST", "PUT", "PATCH"] -> ["Content-Length: 0\r\n"]
      Bodiless -> []
    final =
      ["Expect: 100-continue\r\n" | planExpects planned] ++ ["TE: trailers\r\n" | planTrailers planned] ++ case planUpgrade planned of
        Just protocol -> ["Connection: Upgrade", also ", TE", "\r\nUpgrade: ", protocol, "\r\n\r\n"]
        Nothing | proxyAnnounce settings /= announcesNothing || proxyIdle settings <= mempty -> ["Connection: close", also ", TE", "\r\n\r\n"]
        Nothing -> [also "Connection: TE\r\n", "\r\n"]
    also option = if planTrailers planned then option else ""
    announcesNothing = minBound
