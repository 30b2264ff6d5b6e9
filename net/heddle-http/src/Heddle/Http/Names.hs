{-# LANGUAGE MagicHash #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Http.Names
-- Description : Known methods and header names, and how they are recognised
-- Stability   : internal; exempt from the version policy
--
-- Small numbers for the names that a server asks about. They are recognised
-- once, while parsing; afterwards a name is found by its number.
--
-- Everything here runs on any thread, never blocks and throws nothing.
module Heddle.Http.Names
  ( -- * Methods
    MethodCode
      ( MethodCode,
        MethodOther,
        MethodGet,
        MethodHead,
        MethodPost,
        MethodPut,
        MethodDelete,
        MethodConnect,
        MethodOptions,
        MethodTrace,
        MethodPatch
      ),
    methodName,
    recogniseMethod,

    -- * Known headers
    KnownHeader
      ( KnownHeader,
        HeaderHost,
        HeaderConnection,
        HeaderContentLength,
        HeaderTransferEncoding,
        HeaderExpect,
        HeaderUpgrade,
        HeaderTE,
        HeaderTrailer,
        HeaderKeepAlive,
        HeaderProxyConnection,
        HeaderVia,
        HeaderIfMatch,
        HeaderIfNoneMatch,
        HeaderIfModifiedSince,
        HeaderIfUnmodifiedSince,
        HeaderIfRange,
        HeaderRange,
        HeaderUserAgent,
        HeaderReferer,
        HeaderAccept,
        HeaderAcceptEncoding,
        HeaderAcceptLanguage,
        HeaderAcceptCharset,
        HeaderContentType,
        HeaderContentEncoding,
        HeaderContentLanguage,
        HeaderContentLocation,
        HeaderCookie,
        HeaderAuthorization,
        HeaderProxyAuthorization,
        HeaderXForwardedFor,
        HeaderXForwardedProto,
        HeaderXForwardedHost,
        HeaderXRealIp,
        HeaderXRequestId,
        HeaderXRequestedWith,
        HeaderForwarded,
        HeaderOrigin,
        HeaderCacheControl,
        HeaderPragma,
        HeaderDate,
        HeaderFrom,
        HeaderMaxForwards,
        HeaderPrefer,
        HeaderPriority,
        HeaderPurpose,
        HeaderDnt,
        HeaderSaveData,
        HeaderUpgradeInsecureRequests,
        HeaderSecFetchSite,
        HeaderSecFetchMode,
        HeaderSecFetchUser,
        HeaderSecFetchDest,
        HeaderSecChUa,
        HeaderSecChUaMobile,
        HeaderSecChUaPlatform,
        HeaderSecWebSocketKey,
        HeaderSecWebSocketVersion,
        HeaderSecWebSocketProtocol,
        HeaderSecWebSocketExtensions,
        HeaderAccessControlRequestMethod,
        HeaderAccessControlRequestHeaders,
        HeaderTraceparent
      ),
    knownHeaderName,
    knownHeaders,
    knownTotal,
    recogniseHeader,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Foldable (for_)
import Data.Primitive.ByteArray
  ( ByteArray,
    indexByteArray,
    newByteArray,
    readByteArray,
    runByteArray,
    setByteArray,
    writeByteArray,
  )
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Scan (Unboxed, boxed, byteAt, unboxed, word64At)

-- | A request method. A method that is not in the list is 'MethodOther'; its
-- spelling is in 'Heddle.Http.Head.methodSlice'.
--
-- [Source]: RFC 9110, section 9; RFC 5789.
newtype MethodCode = MethodCode Int
  deriving stock (Eq, Ord)

instance Show MethodCode where
  showsPrec d method
    | method == MethodOther = showString "MethodOther"
    | otherwise = showsPrec d (methodName method)

-- | Any method without a code.
pattern MethodOther :: MethodCode
pattern MethodOther = MethodCode 0

-- | @GET@.
pattern MethodGet :: MethodCode
pattern MethodGet = MethodCode 1

-- | @HEAD@.
pattern MethodHead :: MethodCode
pattern MethodHead = MethodCode 2

-- | @POST@.
pattern MethodPost :: MethodCode
pattern MethodPost = MethodCode 3

-- | @PUT@.
pattern MethodPut :: MethodCode
pattern MethodPut = MethodCode 4

-- | @DELETE@.
pattern MethodDelete :: MethodCode
pattern MethodDelete = MethodCode 5

-- | @CONNECT@.
pattern MethodConnect :: MethodCode
pattern MethodConnect = MethodCode 6

-- | @OPTIONS@.
pattern MethodOptions :: MethodCode
pattern MethodOptions = MethodCode 7

-- | @TRACE@.
pattern MethodTrace :: MethodCode
pattern MethodTrace = MethodCode 8

-- | @PATCH@.
pattern MethodPatch :: MethodCode
pattern MethodPatch = MethodCode 9

-- | The spelling of a method; empty for 'MethodOther'.
--
-- [Cost]: O(1); the result is shared.
methodName :: MethodCode -> ByteString
methodName = \case
  MethodGet -> "GET"
  MethodHead -> "HEAD"
  MethodPost -> "POST"
  MethodPut -> "PUT"
  MethodDelete -> "DELETE"
  MethodConnect -> "CONNECT"
  MethodOptions -> "OPTIONS"
  MethodTrace -> "TRACE"
  MethodPatch -> "PATCH"
  _ -> ""

-- | The code of a method, from its spelling; methods are case-sensitive.
--
-- [Cost]: O(1).
recogniseMethod :: Ptr Word8 -> Int -> Int -> Int -> IO MethodCode
recogniseMethod buffer offset len end = MethodCode <$> boxed (recogniseMethod# buffer offset len end)
{-# INLINE recogniseMethod #-}

recogniseMethod# :: Ptr Word8 -> Int -> Int -> Int -> Unboxed
recogniseMethod# !buffer !offset !len !end
  | len > 7 = unboxed (pure 0)
  | otherwise = unboxed $ do
    w <- prefixAt buffer offset len end
    case methodOf w of MethodCode code -> pure code
  where
    methodOf :: Word64 -> MethodCode
    methodOf = \case
      0x544547 -> MethodGet
      0x44414548 -> MethodHead
      0x54534f50 -> MethodPost
      0x545550 -> MethodPut
      0x4554454c4544 -> MethodDelete
      0x5443454e4e4f43 -> MethodConnect
      0x534e4f4954504f -> MethodOptions
      0x4543415254 -> MethodTrace
      0x4843544150 -> MethodPatch
      _ -> MethodOther

-- | A header name that the parser recognises.
newtype KnownHeader = KnownHeader Int
  deriving stock (Eq, Ord)

instance Show KnownHeader where
  showsPrec d known = showsPrec d (knownHeaderName known)

-- | The name, in lower case; empty for a code outside 'knownHeaders'.
--
-- [Cost]: O(code); for messages and tests.
knownHeaderName :: KnownHeader -> ByteString
knownHeaderName (KnownHeader code) = case drop code knownNames of
  name : _ | code >= 0 -> name
  _ -> ""

-- | Every known header.
--
-- [Cost]: O(1) each.
knownHeaders :: [KnownHeader]
knownHeaders = map KnownHeader [0 .. knownTotal - 1]

-- | The code of a header name, or -1. Precondition: no byte of the name is a
-- control character, and the name ends before the given end of the buffer.
--
-- [Cost]: O(1). A known name is thereby also known to be a token; see Note
-- [Recognising a name].
recogniseHeader :: Ptr Word8 -> Int -> Int -> Int -> IO Int
recogniseHeader buffer offset len end = boxed (recogniseHeader# buffer offset len end)
{-# INLINE recogniseHeader #-}

recogniseHeader# :: Ptr Word8 -> Int -> Int -> Int -> Unboxed
recogniseHeader# !buffer !offset !len !end
  | len <= 8 = unboxed $ do
    first <- prefixAt buffer offset len end
    let !folded = (first .|. blanks) .&. mask len
    pure $! knownCode len folded folded 0 0
  | len <= 16 = unboxed $ do
    first <- word64At buffer offset
    final <- word64At buffer (offset + len - 8)
    pure $! knownCode len (first .|. blanks) (final .|. blanks) 0 0
  | len <= 32 = unboxed $ do
    first <- word64At buffer offset
    second <- word64At buffer (offset + 8)
    -- Up to 24 bytes, the third eight are the last eight.
    third <- word64At buffer (offset + min 16 (len - 8))
    final <- word64At buffer (offset + len - 8)
    pure $! knownCode len (first .|. blanks) (final .|. blanks) (second .|. blanks) (third .|. blanks)
  | otherwise = unboxed (pure (-1))
{-# NOINLINE recogniseHeader# #-}

-- | Look up a name in lower case by its length and its first, last, second and
-- third eight bytes; the latter two are 0 up to a length of 16.
knownCode :: Int -> Word64 -> Word64 -> Word64 -> Word64 -> Int
knownCode !len !first !final !second !third = go (hashName len first final)
  where
    go !slot
      | stored == 0 = -1
      | stored == fromIntegral len,
        at 1 == first,
        at 2 == final,
        at 3 == second,
        at 4 == third =
        fromIntegral (at 5)
      | otherwise = go ((slot + 1) .&. (slotCount - 1))
      where
        stored = at 0
        at k = indexByteArray knownTable (slot * 6 + k) :: Word64

-- | Up to eight bytes, the first one lowest and zeros above the last, without
-- reading at or beyond the end of the buffer.
prefixAt :: Ptr Word8 -> Int -> Int -> Int -> IO Word64
prefixAt !buffer !offset !len !end
  | offset + 8 <= end = (.&. mask len) <$> word64At buffer offset
  | otherwise = go 0 0
  where
    go !i !acc
      | i >= len = pure acc
      | otherwise = do
        byte <- byteAt buffer (offset + i)
        go (i + 1) (acc .|. (fromIntegral byte `unsafeShiftL` (8 * i)))
{-# INLINE prefixAt #-}

-- | Ones in so many low bytes, at most eight.
mask :: Int -> Word64
mask len
  | len <= 0 = 0
  | otherwise = maxBound `unsafeShiftR` (64 - 8 * len)
{-# INLINE mask #-}

-- | Sets the bit that tells an upper-case letter from a lower-case one. It also maps CR to
-- the hyphen and 0x10 to 0x19 to digits, which is safe because no name contains them: the
-- parser ends a name at the first control character ('Heddle.Http.Scan.nameEnd'). See Note
-- [Recognising a name] and the test controlBytesFoldOntoKnownNames.
blanks :: Word64
blanks = 0x2020202020202020

hashName :: Int -> Word64 -> Word64 -> Int
hashName len first final =
  fromIntegral (((first + 31 * final + fromIntegral len) * 0x9E3779B97F4A7C15) `unsafeShiftR` 56)
{-# INLINE hashName #-}

slotCount :: Int
slotCount = 256

-- | The hash table of the known names: per slot the length, or 0 when free, the
-- first and last eight bytes, the second and third eight where the length has
-- them, and the code.
knownTable :: ByteArray
knownTable = runByteArray $ do
  array <- newByteArray (slotCount * 6 * 8)
  setByteArray array 0 (slotCount * 6) (0 :: Word64)
  for_ (zip [0 ..] knownNames) $ \(code, name) -> do
    let len = B.length name
        first = pack (B.take 8 name)
        final = pack (B.drop (len - 8) name)
        second = if len > 16 then pack (B.take 8 (B.drop 8 name)) else 0
        third = if len > 16 then pack (B.take 8 (B.drop (min 16 (len - 8)) name)) else 0
        place slot = do
          stored <- readByteArray array (slot * 6)
          if stored /= (0 :: Word64)
            then place ((slot + 1) .&. (slotCount - 1))
            else for_ (zip [0 ..] [fromIntegral len, first, final, second, third, code]) $
              \(k, w) -> writeByteArray array (slot * 6 + k) (w :: Word64)
    place (hashName len first final)
  pure array
  where
    pack = B.foldr (\byte acc -> (acc `unsafeShiftL` 8) .|. fromIntegral byte) 0
{-# NOINLINE knownTable #-}

-- | How many known headers there are; their codes are below it.
--
-- [Cost]: none.
knownTotal :: Int
knownTotal = 63

-- | The names, in the order of their codes.
knownNames :: [ByteString]
knownNames =
  [ "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "expect",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "proxy-connection",
    "via",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "range",
    "user-agent",
    "referer",
    "accept",
    "accept-encoding",
    "accept-language",
    "accept-charset",
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "cookie",
    "authorization",
    "proxy-authorization",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-real-ip",
    "x-request-id",
    "x-requested-with",
    "forwarded",
    "origin",
    "cache-control",
    "pragma",
    "date",
    "from",
    "max-forwards",
    "prefer",
    "priority",
    "purpose",
    "dnt",
    "save-data",
    "upgrade-insecure-requests",
    "sec-fetch-site",
    "sec-fetch-mode",
    "sec-fetch-user",
    "sec-fetch-dest",
    "sec-ch-ua",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "access-control-request-method",
    "access-control-request-headers",
    "traceparent"
  ]

-- | @host@.
pattern HeaderHost :: KnownHeader
pattern HeaderHost = KnownHeader 0

-- | @connection@.
pattern HeaderConnection :: KnownHeader
pattern HeaderConnection = KnownHeader 1

-- | @content-length@.
pattern HeaderContentLength :: KnownHeader
pattern HeaderContentLength = KnownHeader 2

-- | @transfer-encoding@.
pattern HeaderTransferEncoding :: KnownHeader
pattern HeaderTransferEncoding = KnownHeader 3

-- | @expect@.
pattern HeaderExpect :: KnownHeader
pattern HeaderExpect = KnownHeader 4

-- | @upgrade@.
pattern HeaderUpgrade :: KnownHeader
pattern HeaderUpgrade = KnownHeader 5

-- | @te@.
pattern HeaderTE :: KnownHeader
pattern HeaderTE = KnownHeader 6

-- | @trailer@.
pattern HeaderTrailer :: KnownHeader
pattern HeaderTrailer = KnownHeader 7

-- | @keep-alive@.
pattern HeaderKeepAlive :: KnownHeader
pattern HeaderKeepAlive = KnownHeader 8

-- | @proxy-connection@.
pattern HeaderProxyConnection :: KnownHeader
pattern HeaderProxyConnection = KnownHeader 9

-- | @via@.
pattern HeaderVia :: KnownHeader
pattern HeaderVia = KnownHeader 10

-- | @if-match@.
pattern HeaderIfMatch :: KnownHeader
pattern HeaderIfMatch = KnownHeader 11

-- | @if-none-match@.
pattern HeaderIfNoneMatch :: KnownHeader
pattern HeaderIfNoneMatch = KnownHeader 12

-- | @if-modified-since@.
pattern HeaderIfModifiedSince :: KnownHeader
pattern HeaderIfModifiedSince = KnownHeader 13

-- | @if-unmodified-since@.
pattern HeaderIfUnmodifiedSince :: KnownHeader
pattern HeaderIfUnmodifiedSince = KnownHeader 14

-- | @if-range@.
pattern HeaderIfRange :: KnownHeader
pattern HeaderIfRange = KnownHeader 15

-- | @range@.
pattern HeaderRange :: KnownHeader
pattern HeaderRange = KnownHeader 16

-- | @user-agent@.
pattern HeaderUserAgent :: KnownHeader
pattern HeaderUserAgent = KnownHeader 17

-- | @referer@.
pattern HeaderReferer :: KnownHeader
pattern HeaderReferer = KnownHeader 18

-- | @accept@.
pattern HeaderAccept :: KnownHeader
pattern HeaderAccept = KnownHeader 19

-- | @accept-encoding@.
pattern HeaderAcceptEncoding :: KnownHeader
pattern HeaderAcceptEncoding = KnownHeader 20

-- | @accept-language@.
pattern HeaderAcceptLanguage :: KnownHeader
pattern HeaderAcceptLanguage = KnownHeader 21

-- | @accept-charset@.
pattern HeaderAcceptCharset :: KnownHeader
pattern HeaderAcceptCharset = KnownHeader 22

-- | @content-type@.
pattern HeaderContentType :: KnownHeader
pattern HeaderContentType = KnownHeader 23

-- | @content-encoding@.
pattern HeaderContentEncoding :: KnownHeader
pattern HeaderContentEncoding = KnownHeader 24

-- | @content-language@.
pattern HeaderContentLanguage :: KnownHeader
pattern HeaderContentLanguage = KnownHeader 25

-- | @content-location@.
pattern HeaderContentLocation :: KnownHeader
pattern HeaderContentLocation = KnownHeader 26

-- | @cookie@.
pattern HeaderCookie :: KnownHeader
pattern HeaderCookie = KnownHeader 27

-- | @authorization@.
pattern HeaderAuthorization :: KnownHeader
pattern HeaderAuthorization = KnownHeader 28

-- | @proxy-authorization@.
pattern HeaderProxyAuthorization :: KnownHeader
pattern HeaderProxyAuthorization = KnownHeader 29

-- | @x-forwarded-for@.
pattern HeaderXForwardedFor :: KnownHeader
pattern HeaderXForwardedFor = KnownHeader 30

-- | @x-forwarded-proto@.
pattern HeaderXForwardedProto :: KnownHeader
pattern HeaderXForwardedProto = KnownHeader 31

-- | @x-forwarded-host@.
pattern HeaderXForwardedHost :: KnownHeader
pattern HeaderXForwardedHost = KnownHeader 32

-- | @x-real-ip@.
pattern HeaderXRealIp :: KnownHeader
pattern HeaderXRealIp = KnownHeader 33

-- | @x-request-id@.
pattern HeaderXRequestId :: KnownHeader
pattern HeaderXRequestId = KnownHeader 34

-- | @x-requested-with@.
pattern HeaderXRequestedWith :: KnownHeader
pattern HeaderXRequestedWith = KnownHeader 35

-- | @forwarded@.
pattern HeaderForwarded :: KnownHeader
pattern HeaderForwarded = KnownHeader 36

-- | @origin@.
pattern HeaderOrigin :: KnownHeader
pattern HeaderOrigin = KnownHeader 37

-- | @cache-control@.
pattern HeaderCacheControl :: KnownHeader
pattern HeaderCacheControl = KnownHeader 38

-- | @pragma@.
pattern HeaderPragma :: KnownHeader
pattern HeaderPragma = KnownHeader 39

-- | @date@.
pattern HeaderDate :: KnownHeader
pattern HeaderDate = KnownHeader 40

-- | @from@.
pattern HeaderFrom :: KnownHeader
pattern HeaderFrom = KnownHeader 41

-- | @max-forwards@.
pattern HeaderMaxForwards :: KnownHeader
pattern HeaderMaxForwards = KnownHeader 42

-- | @prefer@.
pattern HeaderPrefer :: KnownHeader
pattern HeaderPrefer = KnownHeader 43

-- | @priority@.
pattern HeaderPriority :: KnownHeader
pattern HeaderPriority = KnownHeader 44

-- | @purpose@.
pattern HeaderPurpose :: KnownHeader
pattern HeaderPurpose = KnownHeader 45

-- | @dnt@.
pattern HeaderDnt :: KnownHeader
pattern HeaderDnt = KnownHeader 46

-- | @save-data@.
pattern HeaderSaveData :: KnownHeader
pattern HeaderSaveData = KnownHeader 47

-- | @upgrade-insecure-requests@.
pattern HeaderUpgradeInsecureRequests :: KnownHeader
pattern HeaderUpgradeInsecureRequests = KnownHeader 48

-- | @sec-fetch-site@.
pattern HeaderSecFetchSite :: KnownHeader
pattern HeaderSecFetchSite = KnownHeader 49

-- | @sec-fetch-mode@.
pattern HeaderSecFetchMode :: KnownHeader
pattern HeaderSecFetchMode = KnownHeader 50

-- | @sec-fetch-user@.
pattern HeaderSecFetchUser :: KnownHeader
pattern HeaderSecFetchUser = KnownHeader 51

-- | @sec-fetch-dest@.
pattern HeaderSecFetchDest :: KnownHeader
pattern HeaderSecFetchDest = KnownHeader 52

-- | @sec-ch-ua@.
pattern HeaderSecChUa :: KnownHeader
pattern HeaderSecChUa = KnownHeader 53

-- | @sec-ch-ua-mobile@.
pattern HeaderSecChUaMobile :: KnownHeader
pattern HeaderSecChUaMobile = KnownHeader 54

-- | @sec-ch-ua-platform@.
pattern HeaderSecChUaPlatform :: KnownHeader
pattern HeaderSecChUaPlatform = KnownHeader 55

-- | @sec-websocket-key@.
pattern HeaderSecWebSocketKey :: KnownHeader
pattern HeaderSecWebSocketKey = KnownHeader 56

-- | @sec-websocket-version@.
pattern HeaderSecWebSocketVersion :: KnownHeader
pattern HeaderSecWebSocketVersion = KnownHeader 57

-- | @sec-websocket-protocol@.
pattern HeaderSecWebSocketProtocol :: KnownHeader
pattern HeaderSecWebSocketProtocol = KnownHeader 58

-- | @sec-websocket-extensions@.
pattern HeaderSecWebSocketExtensions :: KnownHeader
pattern HeaderSecWebSocketExtensions = KnownHeader 59

-- | @access-control-request-method@.
pattern HeaderAccessControlRequestMethod :: KnownHeader
pattern HeaderAccessControlRequestMethod = KnownHeader 60

-- | @access-control-request-headers@.
pattern HeaderAccessControlRequestHeaders :: KnownHeader
pattern HeaderAccessControlRequestHeaders = KnownHeader 61

-- | @traceparent@.
pattern HeaderTraceparent :: KnownHeader
pattern HeaderTraceparent = KnownHeader 62

-- Note [Recognising a name]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~
-- Names are compared eight bytes at a time after setting bit 5 of each byte. That
-- maps upper-case letters to lower-case ones; the only other bytes that it maps to
-- a letter, a digit or a hyphen are control characters (CR to the hyphen, 0x10 to
-- 0x19 to digits), and the parser has excluded those. So equality after the
-- mapping is equality without regard to case, and a name equal to a known one
-- needs no further check that it is a token.
