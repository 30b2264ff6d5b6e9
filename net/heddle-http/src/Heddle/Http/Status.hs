{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Http.Status
-- Description : Status codes
-- Stability   : internal, exempt from the version policy
--
-- One table: a status is a code with its reason phrase.
--
-- Cost: constants.
-- Owner: values.
module Heddle.Http.Status
  ( -- * Statuses
    Status,
    statusCode,
    reasonPhrase,
    statusForbidsContent,
    statusFor,
    otherStatus,
    statusWith,

    -- ** 1xx: informational
    status100,
    status101,
    status103,

    -- ** 2xx: successful
    status200,
    status201,
    status202,
    status203,
    status204,
    status205,
    status206,

    -- ** 3xx: redirection
    status300,
    status301,
    status302,
    status303,
    status304,
    status307,
    status308,

    -- ** 4xx: the client's error
    status400,
    status401,
    status402,
    status403,
    status404,
    status405,
    status406,
    status407,
    status408,
    status409,
    status410,
    status411,
    status412,
    status413,
    status414,
    status415,
    status416,
    status417,
    status421,
    status422,
    status425,
    status426,
    status428,
    status429,
    status431,
    status451,

    -- ** 5xx: the server's error
    status500,
    status501,
    status502,
    status503,
    status504,
    status505,
    status507,
    status511,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.List (find)
import Data.Maybe (fromMaybe)

-- | A status: a code of three digits and its reason phrase. Statuses are equal when their
-- codes are.
--
-- [Source]: RFC 9110, section 15.
data Status
  = -- The phrase is lazy so that each constant below is static data. The constructor stays
    -- here, where phrases are checked.
    Status !Int ByteString

instance Eq Status where
  a == b = statusCode a == statusCode b

instance Ord Status where
  compare a b = compare (statusCode a) (statusCode b)

instance Show Status where
  showsPrec d status = showParen (d > 10) (showString "Status " . showsPrec 11 (statusCode status))

-- | The number of a status.
--
-- [Cost]: one load.
statusCode :: Status -> Int
statusCode (Status code _) = code
{-# INLINE statusCode #-}

-- | The customary words for a status; empty for one of 'otherStatus'.
--
-- >>> reasonPhrase status404
-- "Not Found"
--
-- [Cost]: O(1); the result is shared.
reasonPhrase :: Status -> ByteString
reasonPhrase (Status _ phrase) = phrase

-- | Whether a response with this status never carries content, whatever its
-- fields say: every 1xx, 204 and 304.
--
-- [Cost]: O(1).
-- [Source]: RFC 9112, section 6.3.
statusForbidsContent :: Status -> Bool
statusForbidsContent (Status code _) = code < 200 || code == 204 || code == 304
{-# INLINE statusForbidsContent #-}

-- | The status of a code: the constant below if there is one, else 'otherStatus'.
--
-- >>> reasonPhrase (statusFor 429)
-- "Too Many Requests"
--
-- [Cost]: O(number of constants).
statusFor :: Int -> Status
statusFor code = fromMaybe (otherStatus code) (find ((== code) . statusCode) constants)

-- | A status by its code, without a phrase, as the grammar allows.
--
-- [Cost]: O(1).
otherStatus :: Int -> Status
otherStatus code = Status code ""

-- | A status with words of one's own, as far as they can stand in a status line: without CR,
-- LF and NUL, and at most 512 bytes.
--
-- [Cost]: O(length).
statusWith :: Int -> ByteString -> Status
statusWith code phrase
  | B.length phrase <= 512 && B.all allowed phrase = Status code phrase
  | otherwise = Status code (B.filter allowed (B.take 512 phrase))
  where
    allowed b = b /= 13 && b /= 10 && b /= 0

-- | Informational: the final response follows.
--
-- [Source]: RFC 9110, section 15.2; RFC 8297.
status100, status101, status103 :: Status
status100 = Status 100 "Continue"
status101 = Status 101 "Switching Protocols"
status103 = Status 103 "Early Hints"

-- | The request was understood and accepted.
--
-- [Source]: RFC 9110, section 15.3.
status200, status201, status202, status203, status204, status205, status206 :: Status
status200 = Status 200 "OK"
status201 = Status 201 "Created"
status202 = Status 202 "Accepted"
status203 = Status 203 "Non-Authoritative Information"
status204 = Status 204 "No Content"
status205 = Status 205 "Reset Content"
status206 = Status 206 "Partial Content"

-- | The client has to do more, usually to ask elsewhere.
--
-- [Source]: RFC 9110, section 15.4.
status300, status301, status302, status303, status304, status307, status308 :: Status
status300 = Status 300 "Multiple Choices"
status301 = Status 301 "Moved Permanently"
status302 = Status 302 "Found"
status303 = Status 303 "See Other"
status304 = Status 304 "Not Modified"
status307 = Status 307 "Temporary Redirect"
status308 = Status 308 "Permanent Redirect"

-- | The client's error.
--
-- [Source]: RFC 9110, section 15.5; RFC 6585; RFC 7725; RFC 8470.
status400, status401, status402, status403, status404, status405, status406, status407, status408, status409, status410, status411, status412, status413, status414, status415, status416, status417, status421, status422, status425, status426, status428, status429, status431, status451 :: Status
status400 = Status 400 "Bad Request"
status401 = Status 401 "Unauthorized"
status402 = Status 402 "Payment Required"
status403 = Status 403 "Forbidden"
status404 = Status 404 "Not Found"
status405 = Status 405 "Method Not Allowed"
status406 = Status 406 "Not Acceptable"
status407 = Status 407 "Proxy Authentication Required"
status408 = Status 408 "Request Timeout"
status409 = Status 409 "Conflict"
status410 = Status 410 "Gone"
status411 = Status 411 "Length Required"
status412 = Status 412 "Precondition Failed"
status413 = Status 413 "Content Too Large"
status414 = Status 414 "URI Too Long"
status415 = Status 415 "Unsupported Media Type"
status416 = Status 416 "Range Not Satisfiable"
status417 = Status 417 "Expectation Failed"
status421 = Status 421 "Misdirected Request"
status422 = Status 422 "Unprocessable Content"
status425 = Status 425 "Too Early"
status426 = Status 426 "Upgrade Required"
status428 = Status 428 "Precondition Required"
status429 = Status 429 "Too Many Requests"
status431 = Status 431 "Request Header Fields Too Large"
status451 = Status 451 "Unavailable For Legal Reasons"

-- | The server's error.
--
-- [Source]: RFC 9110, section 15.6; RFC 4918; RFC 6585.
status500, status501, status502, status503, status504, status505, status507, status511 :: Status
status500 = Status 500 "Internal Server Error"
status501 = Status 501 "Not Implemented"
status502 = Status 502 "Bad Gateway"
status503 = Status 503 "Service Unavailable"
status504 = Status 504 "Gateway Timeout"
status505 = Status 505 "HTTP Version Not Supported"
status507 = Status 507 "Insufficient Storage"
status511 = Status 511 "Network Authentication Required"

-- Every constant.
constants :: [Status]
constants =
  concat
    [ [status100, status101, status103],
      [status200, status201, status202, status203, status204, status205, status206],
      [status300, status301, status302, status303, status304, status307, status308],
      [status400, status401, status402, status403, status404, status405, status406, status407, status408, status409, status410, status411, status412, status413, status414, status415, status416, status417, status421, status422, status425, status426, status428, status429, status431, status451],
      [status500, status501, status502, status503, status504, status505, status507, status511]
    ]
