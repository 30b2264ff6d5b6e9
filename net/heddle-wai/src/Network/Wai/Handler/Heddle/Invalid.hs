-- |
-- Module      : Network.Wai.Handler.Heddle.Invalid
-- Description : What a client or an application did wrong
-- Stability   : hidden; "Network.Wai.Handler.Heddle" exports it
--
-- 'InvalidRequest' has Warp's name and constructors, for programs that match on them. 'WaiMisuse' is
-- about applications that break WAI's contract.
--
-- Cost: none; values.
-- Owner: values.
module Network.Wai.Handler.Heddle.Invalid
  ( InvalidRequest (..),
    WaiMisuse (..),
    asInvalid,
    fromInvalid,
  )
where

import Heddle.Http (BodyError (..), ConnectionLost (..))
import Heddle.Prim.Exception (Exception (..), SomeException)

-- | The client's fault. Only 'ConnectionClosedByPeer' is thrown here: when the client goes away under
-- a request's body or a response. Heads that are not HTTP are refused before an application sees
-- them. The other constructors are Warp's, so that a program that matches on them compiles.
data InvalidRequest
  = NotEnoughLines ![String]
  | BadFirstLine !String
  | NonHttp
  | IncompleteHeaders
  | ConnectionClosedByPeer
  | OverLargeHeader
  | BadProxyHeader !String
  | PayloadTooLarge
  | RequestHeaderFieldsTooLarge
  deriving stock (Eq)

instance Show InvalidRequest where
  show = \case
    NotEnoughLines lines' -> "Warp: Incomplete request headers, received: " ++ show lines'
    BadFirstLine line -> "Warp: Invalid first line of request: " ++ show line
    NonHttp -> "Warp: Request line specified a non-HTTP request"
    IncompleteHeaders -> "Warp: Request headers did not finish transmission"
    ConnectionClosedByPeer -> "the client closed the connection prematurely, or took the response too slowly"
    OverLargeHeader -> "Warp: Request headers too large, possible memory attack detected. Closing connection."
    BadProxyHeader line -> "Warp: Invalid PROXY protocol header: " ++ show line
    PayloadTooLarge -> "Request Body larger than the limit"
    RequestHeaderFieldsTooLarge -> "Request header fields too large"

instance Exception InvalidRequest

-- | An application's mistake, given to the exception hook.
data WaiMisuse
  = -- | It returned without having responded. The client is sent the exception response.
    NeverResponded
  | -- | It responded with a status that is no final one, or has no three digits.
    UnsendableStatus !Int
  | -- | It returned while another of its threads was still responding or reading the body. The
    -- connection was closed.
    ReturnedEarly
  deriving stock (Eq)

instance Show WaiMisuse where
  showsPrec d e = showParen (d > 10) (showString (displayException e))

instance Exception WaiMisuse where
  displayException = \case
    NeverResponded -> "a WAI application returned without calling its respond function"
    UnsendableStatus code -> "a WAI application responded with status " ++ show code ++ "; only 200 to 999 can end a request"
    ReturnedEarly -> "a WAI application returned while another of its threads was responding or reading the request's body"

-- | The engine's way to say that the client has gone, in Warp's words.
asInvalid :: SomeException -> Maybe InvalidRequest
asInvalid e
  | Just ConnectionLost <- fromException e = Just ConnectionClosedByPeer
  | Just BodyCutShort <- fromException e = Just ConnectionClosedByPeer
  | otherwise = Nothing

-- | Back: what the engine knows how to end. 'Nothing' for what an application threw itself.
fromInvalid :: SomeException -> Maybe SomeException
fromInvalid e
  | Just ConnectionClosedByPeer <- fromException e = Just (toException BodyCutShort)
  | Just ConnectionLost <- fromException e = Just e
  | Just (_ :: BodyError) <- fromException e = Just e
  | otherwise = Nothing
