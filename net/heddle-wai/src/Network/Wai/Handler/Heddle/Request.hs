{-# LANGUAGE CPP #-}
{-# LANGUAGE OverloadedStrings #-}
{-# OPTIONS_GHC -Wno-deprecations -Wno-missing-fields #-}

-- wai deprecates reading the field requestBody; a server has to fill it. A field that came later is set apart.

-- |
-- Module      : Network.Wai.Handler.Heddle.Request
-- Description : A WAI request on the engine's
-- Stability   : hidden
--
-- Every field is a thunk over one copy of the head, so that an application pays for what it reads. Names
-- of well-known headers are shared.
--
-- Cost: a request that is never looked at, a thunk; else 450 bytes, and a field its slice when it is first
-- read. The head's copy is apart.
-- Owner: immutable; any thread.
module Network.Wai.Handler.Heddle.Request
  ( waiRequest,
    pauseTimeout,
    tlsFacts,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.CaseInsensitive qualified as CI
import Data.Char (toUpper)
import Data.Foldable (for_)
import Data.Maybe (fromMaybe)
import Data.Primitive.SmallArray (SmallArray, indexSmallArray, smallArrayFromList)
import Data.Vault.Lazy qualified as Vault
import Heddle.Http (KnownHeader (..), TargetForm (..))
import Heddle.Http qualified as Http
import Heddle.Http.Borrowed (requestConn)
import Heddle.Http.HeadCopy
import Heddle.IO (peerAddress)
import Heddle.IO.Registration (connectionOf)
import Heddle.Prim.Exception (catch, throwIO)
import Heddle.Prim.Global (unsafeGlobal)
import Heddle.Prim.Unsafe (unsafeDupable)
import Network.HTTP.Types qualified as H
import Network.Socket (SockAddr (..))
import Network.Wai.Handler.Heddle.Exchange
import Network.Wai.Handler.Heddle.Invalid
import Network.Wai.Internal (Request (..), RequestBodyLength (..))

-- | The request of an exchange: whether paths stay unparsed, the exchange, its head, HTTP's major version,
-- and what is to come of its body.
waiRequest :: Bool -> Exchange -> HeadCopy -> Int -> Maybe Int -> Request
waiRequest unparsed exchange copy major left =
  withoutHints
    Request
      { requestMethod = copiedMethod copy,
        httpVersion = if major == 2 then H.http20 else if copiedMinor copy == 0 then H.http10 else H.http11,
        rawPathInfo = path,
        rawQueryString = copiedQuery copy,
        requestHeaders = copiedHeadersAs spelt CI.mk copy,
        isSecure = Http.isSecure request,
        remoteHost = unsafeDupable (remoteOf request),
        pathInfo = H.decodePathSegments path,
        queryString = H.parseQuery (copiedQuery copy),
        requestBody = if left == Just 0 then noBody else bodyChunk exchange,
        vault = maybe id (Vault.insert factsKey) (Http.secureFacts request) (Vault.insert pauseKey (pauseTimeouts exchange) Vault.empty),
        requestBodyLength = maybe ChunkedBody (KnownLength . fromIntegral) left,
        requestHeaderHost = copiedHeader HeaderHost copy,
        requestHeaderRange = copiedHeader HeaderRange copy,
        requestHeaderReferer = copiedHeader HeaderReferer copy,
        requestHeaderUserAgent = copiedHeader HeaderUserAgent copy
      }
  where
    request = exchangeRequest exchange
    path = pathOf unparsed copy
-- Inlined where the copy is made, each thunk would hold the copy's fields instead of the copy.
{-# NOINLINE waiRequest #-}

-- Early hints are hints: none are sent. Their field came with wai 3.2.5.
withoutHints :: Request -> Request
#if MIN_VERSION_wai(3,2,5)
withoutHints request = request {requestSendEarlyHints = \_ -> pure ()}
#else
withoutHints request = request
#endif

pathOf :: Bool -> HeadCopy -> ByteString
pathOf unparsed copy
  | unparsed = B.take (B.length whole - B.length (copiedQuery copy)) whole
  | otherwise = case copiedForm copy of
    OriginForm -> copiedPath copy
    AbsoluteForm -> if B.null (copiedPath copy) then "/" else copiedPath copy
    _ -> whole
  where
    whole = copiedTarget copy

-- The peer's address is kept with the connection, so this asks nobody, also later.
remoteOf :: Http.Request -> IO SockAddr
remoteOf request = fromMaybe (SockAddrUnix "") <$> peerAddress (connectionOf (requestConn request))

noBody :: IO ByteString
noBody = pure B.empty

bodyChunk :: Exchange -> IO ByteString
bodyChunk exchange = using exchange noBody $ do
  request <- bodyRequest exchange
  Http.readBody request `catch` \e -> maybe (throwIO e) throwIO (asInvalid e)

-- | Let the client send this request's body as slowly as it likes; 'Network.Wai.Handler.Heddle.setTimeout' does not
-- limit it then. An application's own time is never limited. Nothing happens for a request that
-- is not of this server.
pauseTimeout :: Request -> IO ()
pauseTimeout request = for_ (Vault.lookup pauseKey (vault request)) id

-- | What is known of the TLS connection of a request that came by HTTPS.
tlsFacts :: Request -> Maybe Http.LayerFacts
tlsFacts request = Vault.lookup factsKey (vault request)

factsKey :: Vault.Key Http.LayerFacts
factsKey = unsafeGlobal Vault.newKey
{-# NOINLINE factsKey #-}

pauseKey :: Vault.Key (IO ())
pauseKey = unsafeGlobal Vault.newKey
{-# NOINLINE pauseKey #-}

-- A shared name, if the client spells it as usual, or as in HTTP/2; else one of its own: X-Real-IP.
spelt :: KnownHeader -> ByteString -> H.HeaderName
spelt known name
  | CI.original usual == name = usual
  | CI.original small == name = small
  | otherwise = CI.mk name
  where
    usual = indexSmallArray knownNames (fromEnum known)
    small = indexSmallArray smallNames (fromEnum known)

-- user-agent.
smallNames :: SmallArray H.HeaderName
smallNames = smallArrayFromList (map (CI.mk . Http.knownHeaderName) Http.knownHeaders)
{-# NOINLINE smallNames #-}

-- User-Agent.
knownNames :: SmallArray H.HeaderName
knownNames = smallArrayFromList [CI.mk (usual (Http.knownHeaderName known)) | known <- Http.knownHeaders]
  where
    usual = C.intercalate "-" . map capital . C.split '-'
    capital word = case C.uncons word of
      Just (first, rest) -> C.cons (toUpper first) rest
      Nothing -> word
{-# NOINLINE knownNames #-}
