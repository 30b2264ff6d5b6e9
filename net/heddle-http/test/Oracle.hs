-- | A second reading of RFC 9112, written for clearness alone: on lists of
-- characters, from whole inputs, sharing nothing with the library but its limits
-- and the names of forms.
module Oracle
  ( Verdict (..),
    Request (..),
    oracleHead,
    Body (..),
    oracleChunked,
    oracleFraming,
    tokenChars,
  )
where

import Data.Char (isAlphaNum, isAscii, isDigit, isHexDigit, ord, toLower)
import Data.List (isPrefixOf)
import Data.Maybe (isJust)
import Heddle.Http.Internal (Limits (..), TargetForm (..))
import Numeric (readHex)

-- | How an input is classified.
data Verdict
  = Incomplete
  | -- | With the status.
    Refused Int
  | -- | With the bytes consumed.
    Accepted Int Request
  deriving stock (Eq, Show)

data Request = Request
  { requestMethod :: String,
    requestTarget :: String,
    requestForm :: TargetForm,
    requestPath :: String,
    requestQuery :: String,
    requestAuthority :: String,
    requestMinor :: Int,
    requestHeaders :: [(String, String)]
  }
  deriving stock (Eq, Show)

oracleHead :: Limits -> String -> Verdict
oracleHead limits input = case nextLine 0 of
  Nothing -> overflow 414
  Just (Left status, _) -> Refused status
  Just (Right "", at) -> case nextLine at of
    Nothing -> overflow 414
    Just (Left status, _) -> Refused status
    Just (Right line, after) -> request line after
  Just (Right line, after) -> request line after
  where
    visible = take (limitHeadBytes limits) input
    overflow status
      | length input >= limitHeadBytes limits = Refused status
      | otherwise = Incomplete

    -- A line without its end, and the position after it.
    nextLine at = case break (== '\n') (drop at visible) of
      (_, "") -> Nothing
      (line, _) -> Just (strip line, at + length line + 1)
    strip line
      | null line || last line /= '\r' || '\r' `elem` init line = Left 400
      | otherwise = Right (init line)

    request line after = case splitOn ' ' line of
      [method, target, version]
        | null method || not (all (`elem` tokenChars) method) -> Refused 400
        | null target || not (all (\c -> c > ' ' && c /= '\DEL') target) -> Refused 400
        | otherwise -> case version of
          ['H', 'T', 'T', 'P', '/', major, '.', minor]
            | not (isDigit major && isDigit minor) -> Refused 400
            | major /= '1' -> Refused 505
            | length target > limitTarget limits -> Refused 414
            | otherwise -> case oracleTarget method target of
              Nothing -> Refused 400
              Just build -> headers (build (if minor == '0' then 0 else 1)) after
          _ -> Refused 400
      _ -> Refused 400

    headers sofar at = case nextLine at of
      Nothing -> overflow 431
      Just (Left status, _) -> Refused status
      Just (Right "", after) -> finish sofar after
      Just (Right line, after) -> case break (== ':') line of
        (name, ':' : value)
          | not (null name),
            all (`elem` tokenChars) name,
            all fieldChar value ->
            if length (requestHeaders sofar) >= limitHeaders limits
              then Refused 431
              else headers sofar {requestHeaders = requestHeaders sofar ++ [(name, trim value)]} after
        _ -> Refused 400

    finish sofar after = case [v | (n, v) <- requestHeaders sofar, map toLower n == "host"] of
      [] | requestMinor sofar == 0 -> Accepted after sofar
      [host] | host == "" || isJust (authority host) -> Accepted after sofar
      _ -> Refused 400

oracleTarget :: String -> String -> Maybe (Int -> Request)
oracleTarget method target
  | '#' `elem` target = Nothing
  | method == "CONNECT" = case authority target of
    Just (Just _) -> Just (build AuthorityForm "" "" target)
    _ -> Nothing
  | "/" `isPrefixOf` target = Just (build OriginForm path query "")
  | target == "*" = if method == "OPTIONS" then Just (build AsteriskForm "" "" "") else Nothing
  | otherwise = do
    rest <- afterScheme
    let (host, pathAndQuery) = break (`elem` "/?") rest
        (thePath, theQuery) = break (== '?') pathAndQuery
    _ <- authority host
    Just (build AbsoluteForm thePath theQuery host)
  where
    (path, query) = break (== '?') target
    afterScheme = case filter (`isPrefixOf` map toLower target) ["http://", "https://"] of
      scheme : _ -> Just (drop (length scheme) target)
      [] -> Nothing
    build form thePath theQuery host minor =
      Request method target form thePath theQuery host minor []

-- | A host that is not empty, and its port if there are digits.
authority :: String -> Maybe (Maybe Int)
authority text = case text of
  '[' : rest -> case break (== ']') rest of
    (inside, ']' : after)
      | all (\c -> isHexDigit c || c `elem` ":.") inside,
        length (filter (== ':') inside) >= 2 ->
        port after
    _ -> Nothing
  _ -> case break (== ':') text of
    ("", _) -> Nothing
    (name, after) -> if registered name then port after else Nothing
  where
    port "" = Just Nothing
    port ":" = Just Nothing
    port (':' : digits)
      | all isDigit digits, length digits <= 5, number <= 65535 = Just (Just number)
      where
        number = read digits :: Int
    port _ = Nothing
    registered ('%' : a : b : rest) = isHexDigit a && isHexDigit b && registered rest
    registered (c : rest) = (c `elem` letters ++ "-._~!$&'()*+,;=") && registered rest
    registered "" = True

-- | The status of the framing, or what it is: "none", a length or "chunked".
oracleFraming :: Limits -> Int -> [(String, String)] -> Either Int String
oracleFraming limits minor headers = case (values "content-length", values "transfer-encoding") of
  ([], []) -> Right "none"
  ([size], [])
    | null size || not (all isDigit size) -> Left 400
    | (read size :: Integer) > toInteger (limitBody limits) -> Left 413
    | otherwise -> Right (show (read size :: Integer))
  (_, []) -> Left 400
  ([], codings)
    | minor == 0 -> Left 400
    | otherwise -> case concatMap (map (map toLower . trim) . splitOn ',') codings of
      ["chunked"] -> Right "chunked"
      names
        | "" `elem` names || last names /= "chunked" || length (filter (== "chunked") names) > 1 -> Left 400
        | otherwise -> Left 501
  _ -> Left 400
  where
    values name = [v | (n, v) <- headers, map toLower n == name]

-- | How a chunked body is classified.
data Body
  = BodyIncomplete String
  | BodyRefused Int
  | -- | The data, and the bytes consumed.
    BodyWhole String Int
  deriving stock (Eq, Show)

-- | Decode a whole chunked body, without limits on extensions and trailers.
oracleChunked :: Limits -> String -> Body
oracleChunked limits = chunks "" 0
  where
    chunks sofar at input = case span isHexDigit input of
      (digits, rest)
        | length digits > 16 || tooLarge digits -> tooMuch digits
        | null rest -> BodyIncomplete sofar
        | null digits -> BodyRefused 400
        | otherwise -> case extension rest of
          Left verdict -> verdict
          Right used -> theData (fst (head (readHex digits))) (at + length digits + used) (drop used rest)
      where
        total digits = toInteger (length sofar) + (if null digits then 0 else fst (head (readHex digits)))
        tooLarge digits = total digits > toInteger (limitBody limits)
        -- Whichever digit is the first to be too many decides.
        tooMuch digits
          | total (take 16 digits) > toInteger (limitBody limits) = BodyRefused 413
          | otherwise = BodyRefused 400

        extension rest = case span (`elem` " \t") rest of
          (_, "") -> Left (BodyIncomplete sofar)
          ("", '\r' : more) -> feed 1 more
          (blanks, ';' : more) -> case span fieldChar more of
            (_, "") -> Left (BodyIncomplete sofar)
            (text, '\r' : more') -> feed (length blanks + length text + 2) more'
            _ -> Left (BodyRefused 400)
          _ -> Left (BodyRefused 400)
        feed used = \case
          "" -> Left (BodyIncomplete sofar)
          '\n' : _ -> Right (used + 1)
          _ -> Left (BodyRefused 400)

        theData :: Int -> Int -> String -> Body
        theData 0 now rest = trailers now rest
        theData size now rest
          | length rest < size = BodyIncomplete (sofar ++ rest)
          | otherwise = case drop size rest of
            '\r' : '\n' : more -> chunks (sofar ++ take size rest) (now + size + 2) more
            "" -> BodyIncomplete (sofar ++ rest)
            "\r" -> BodyIncomplete (sofar ++ take size rest)
            _ -> BodyRefused 400

        trailers now rest = case rest of
          "" -> BodyIncomplete sofar
          "\r" -> BodyIncomplete sofar
          '\r' : '\n' : _ -> BodyWhole sofar (now + 2)
          _ -> case span (`elem` tokenChars) rest of
            (name, more)
              | null more && not (null name) -> BodyIncomplete sofar
              | null name -> BodyRefused 400
              | otherwise -> case more of
                ':' : value -> case span fieldChar value of
                  (_, "") -> BodyIncomplete sofar
                  (_, "\r") -> BodyIncomplete sofar
                  (text, '\r' : '\n' : after) -> trailers (now + length name + length text + 3) after
                  _ -> BodyRefused 400
                _ -> BodyRefused 400

letters, tokenChars :: String
letters = [c | c <- ['\0' .. '\DEL'], isAscii c, isAlphaNum c]
tokenChars = letters ++ "!#$%&'*+-.^_`|~"

fieldChar :: Char -> Bool
fieldChar c = c == '\t' || (ord c >= 32 && c /= '\DEL')

trim :: String -> String
trim = dropWhile blank . reverse . dropWhile blank . reverse
  where
    blank = (`elem` " \t")

splitOn :: Char -> String -> [String]
splitOn c text = case break (== c) text of
  (part, _ : rest) -> part : splitOn c rest
  (part, "") -> [part]
